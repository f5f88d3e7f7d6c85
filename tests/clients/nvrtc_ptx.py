# SPDX-License-Identifier: Apache-2.0
"""PTX from CUDA C++, by NVRTC as cuda-bindings call it."""

from cuda.bindings import nvrtc


def done(answer):
    """The results behind the error code, which must be success."""
    code, *results = answer
    if int(code) != 0:
        raise RuntimeError(f"{code!r}")
    return results[0] if len(results) == 1 else results


def ptx_of(source, major, minor, *options):
    """For a card of compute capability @major.@minor."""
    program = done(nvrtc.nvrtcCreateProgram(source.encode(), b"source.cu", 0, [], []))
    options = [f"--gpu-architecture=compute_{major}{minor}".encode(), *options]
    done(nvrtc.nvrtcCompileProgram(program, len(options), options))
    text = b" " * done(nvrtc.nvrtcGetPTXSize(program))
    done(nvrtc.nvrtcGetPTX(program, text))
    done(nvrtc.nvrtcDestroyProgram(program))
    return text

# SPDX-License-Identifier: Apache-2.0
"""`make test-gpu` itself: it compares, and it says when there is nothing to compare with."""

import re
import sys
import zipfile
from pathlib import Path


def script(case, *words, status=0, env=None):
    program = Path(__file__).parents[1] / "gpu" / "run.py"
    results = case.folder / "gpu.md"
    return case.run([sys.executable, "-B", program, "--build", case.build, "--results", results,
                     *words], status=status, env=env), results


def test_comparison_runs_each_program_on_both_sides(case):
    if case.sanitizer:
        case.skip("the script is the same without a sanitizer")
    done, _ = script(case, "--driver", "softgpu", "--only", "vecadd")
    case.contains(done.out, "PASS vecadd\n", "the same here and there")


def test_comparison_without_a_card_says_that_it_was_not_run(case):
    if case.sanitizer:
        case.skip("the script is the same without a sanitizer")
    done, results = script(case, "--driver", case.folder / "no-such-driver.so")
    case.contains(done.out, "it was not run", "what it says")
    case.check(not results.exists(), "no results are written")


def test_rehearsal_on_the_null_driver_judges_the_end_and_the_plan(case):
    if case.sanitizer:
        case.skip("the script is the same without a sanitizer")
    done, results = script(case, "--driver", "null", "--only", "[gv]*")
    case.contains(done.out, "PASS vecadd: came to its end\n", "a program that computes nothing")
    case.contains(done.out, "PASS graphs: came to its end\n", "another")
    case.check(not results.exists(), "results are written without a card")
    done, _ = script(case, "--driver", "null", "--only", "libraries", status=None)
    for part in ("cublas_single", "cudnn_softmax"):
        case.check(re.search(rf"(PASS|SKIP) libraries\.{part}\b", done.out), f"{part} is planned")
    case.contains(done.out, " 0 failed", "the rest")


def wheel(folder, name, text):
    """A package of one module."""
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", text)
        file.writestr(f"{name}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        file.writestr(f"{name}-1.dist-info/WHEEL",
                      "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{name}-1.dist-info/RECORD", "")


def test_pytorch_comes_out_of_a_folder_of_wheels_or_is_missed_in_words(case):
    if case.sanitizer:
        case.skip("the script is the same without a sanitizer")
    build, wheels, listed = case.folder / "build", case.folder / "wheels", case.folder / "list.txt"
    wheels.mkdir()
    build.mkdir()
    for name in ("bin", "lib", "libexec", "tests", "etc"):
        if (case.build / name).exists():
            (build / name).symlink_to(case.build / name)
    listed.write_text("torch==1\n")
    words = ["--build", build, "--driver", "null", "--only", "torch_errors", "--wheels", wheels,
             "--requirements", listed]
    env = {"GPUPOOL_GPU_PYTHON": ""}
    done, _ = script(case, *words, env=env)
    case.check(re.search(r"SKIP torch_errors: PyTorch's wheels cannot be had: .*WHEELS=FOLDER",
                         done.out), f"what is missing and what to do:\n{done.out}")
    wheel(wheels, "torch", "raise SystemExit(0)\n")
    done, _ = script(case, *words, env=env, status=1)
    case.contains(done.out, "FAIL torch_errors: did not start", "no PyTorch at all, but installed")
    listed.write_text("torch==2\n")
    done, _ = script(case, *words, env={"GPUPOOL_GPU_PYTHON": "/no/such/python"})
    case.contains(done.out, "SKIP torch_errors: /no/such/python has no PyTorch", "the one named")

# SPDX-License-Identifier: Apache-2.0
"""The daemons by hand, over IPv6, with a secret between them."""

import socket


def need_ipv6(case):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        case.skip(f"this machine has no IPv6 loopback: {error.strerror}")


def wait_ready(case, path):
    return case.wait_for(lambda: path.exists() and path.read_text().strip(),
                         f"{path.name} is written")


def start(case, name, *flags):
    ready = case.folder / f"{name}.ready"
    log = open(case.folder / f"{name}.log", "ab")
    case.spawn([case.build / "bin" / name, "--ready-file", ready, *flags], stdout=log,
               stderr=log)
    log.close()
    return wait_ready(case, ready)


def secret(case, name, text):
    path = case.folder / name
    path.write_text(text + "\n")
    path.chmod(0o600)
    return path


def scheduler(case, token):
    return start(case, "gpupool-scheduler", "--listen", "[::1]:0", "--state-dir",
                 case.folder / "state", "--server-token-file", token,
                 "--allow-anonymous", "client")


def test_whole_path_works_over_ipv6(case):
    need_ipv6(case)
    gpupool = case.build / "bin" / "gpupool"
    token = secret(case, "token", "a shared secret")
    address = scheduler(case, token)
    case.contains(address, "[::1]:", "the scheduler's address")
    start(case, "gpupool-server", "--listen", "[::1]:0", "--name", "six", "--scheduler",
          address, "--token-file", token, "--driver", "softgpu", "--cards", 1)
    env = {"GPUPOOL_SCHEDULER": address}
    case.wait_for(lambda: "six" in case.run([gpupool, "servers"], env=env).out,
                  "the server registers")
    done = case.run([gpupool, "run", "--core", 30, "--memory", "64MiB", "--",
                     case.programs / "vecadd"], env=env)
    case.contains(done.out, ": ok\n", "vecadd over IPv6")


def test_server_with_the_wrong_secret_gets_no_session(case):
    need_ipv6(case)
    gpupool = case.build / "bin" / "gpupool"
    address = scheduler(case, secret(case, "token", "a shared secret"))
    start(case, "gpupool-server", "--listen", "[::1]:0", "--name", "liar", "--scheduler",
          address, "--token-file", secret(case, "wrong", "a guess"), "--driver", "softgpu",
          "--cards", 1)
    log = case.folder / "gpupool-server.log"
    case.wait_for(lambda: "token" in log.read_text(), "the server says that its token is wrong")
    env = {"GPUPOOL_SCHEDULER": address}
    case.check("liar" not in case.run([gpupool, "servers"], env=env).out,
               "a server with the wrong secret is in the pool")
    done = case.run([gpupool, "run", "--core", 30, "--memory", "64MiB", "--", "true"], env=env,
                    status=None)
    case.check(done.status not in (0, None), "a session was placed on it")

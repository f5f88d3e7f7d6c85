# SPDX-License-Identifier: Apache-2.0
"""Every driver call with NULL, stale and foreign handles and absurd numbers."""


def test_wrong_arguments_are_refused_and_harm_nobody(case):
    pool = case.pool()
    bystander = pool.session(core=30, memory="64MiB").cudash().begin()
    slot = bystander.ok("alloc", 4096)
    done = pool.run(case.build / "tests" / "programs" / "negative", status=None)
    case.equal((done.status, done.out.strip().split("\n")[-1].split(", ")[-1]),
               (0, "0 took wrong arguments"), f"the program's verdict:\n{done.out}")
    bystander.ok("free", slot)

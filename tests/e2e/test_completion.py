# SPDX-License-Identifier: Apache-2.0
"""Shells complete commands, options and values, from the scripts that are installed."""

import re

# The function that the script registers for gpupool, with the words of a line as the
# shell splits them.
BASH = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""

FISH = 'set script $argv[1]; set line $argv[2]; source $script; complete -C "$line"'

# An interactive shell, which is where zsh completes; what it would offer is printed.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -D -u"
zpty -w shell 'offer() {
    compadd() {
        local -a hits
        builtin compadd -A hits "$@"
        [[ " $* " == *" -[OAD] "* ]] || print -r -- "HIT:"${^hits}
        builtin compadd "$@"
    }
    _main_complete
    print -r -- "EN""D:"
}'
zpty -w shell 'zle -C offer complete-word offer; bindkey "^I" offer'
for line in "${@:2}"; do
    zpty -w -n shell "$line"$'\t'
    zpty -r shell text '*END:*'
    print -r -- "LINE:"$text
    zpty -w -n shell $'\x15' # forget the line
done
zpty -d shell
"""

LINES = (
    # the words of the line, of which the last is completed; what is offered; what is not
    (["gpupool", "sta"], {"status"}, {"down"}),
    (["gpupool", ""], {"run", "kube", "completion"}, {"complete"}),
    (["gpupool", "run", "--pla"], {"--placement"}, {"--policy"}),
    (["gpupool", "run", "--placement", ""], {"binpack", "spread"}, {"--core"}),
    (["gpupool", "run", "--core", "30", "--placement", "s"], {"spread"}, {"binpack"}),
    (["gpupool", "job", ""], {"submit", "list", "logs", "kill"}, {"run"}),
    (["gpupool", "job", "submit", "--pla"], {"--placement"}, {"--grace"}),
    (["gpupool", "job", "submit", "--placement", "s"], {"spread"}, {"binpack"}),
    (["gpupool", "job", "kill", "--"], {"--grace"}, {"--placement", "--lines"}),
    (["gpupool", "kube", ""], {"install", "status", "doctor"}, set()),
    (["gpupool-server", "--worker-sand"], {"--worker-sandbox"}, {"--worker-uids"}),
    (["gpupool-scheduler", "--tls", "re"], {"require"}, {"off"}),
    (["gpupool-kube", "node"], {"node-plugin"}, {"webhook"}),
    (["gpupool-kube", "node-plugin", "--kube"], {"--kubelet-dir"}, {"--namespace"}),
)


def installed(case):
    """The scripts as `make install` leaves them: {shell: folder}."""
    tree = case.folder / "tree"
    case.run(["make", "--no-print-directory", "-o", "all", f"O={case.build}", "PREFIX=/usr",
              f"DESTDIR={tree}", "install-completions"], cwd=case.data.parents[1])
    share = tree / "usr" / "share"
    return {"bash": share / "bash-completion" / "completions",
            "zsh": share / "zsh" / "site-functions",
            "fish": share / "fish" / "vendor_completions.d"}


def bash(case, folder, words, env=None):
    return case.run(["bash", "--norc", "-c", BASH, "bash", folder / words[0], *words],
                    env=env).out.split()


def fish(case, folder, words, env=None):
    out = case.run(["fish", "--private", "-c", FISH, folder / f"{words[0]}.fish",
                    " ".join(words)], env={"HOME": case.folder, **(env or {})}).out
    return [line.split("\t")[0] for line in out.splitlines()]


def zsh(case, folder, *lines):
    """For all lines at once, since a shell that completes takes seconds to start."""
    out = case.run(["zsh", "-f", "-c", ZSH, "zsh", folder, *map(" ".join, lines)]).out
    # A description follows a name where there is one.
    return [[hit.split(":")[0] for hit in re.findall(r"HIT:(\S*)", part)]
            for part in out.split("LINE:")[1:]]


def check_lines(case, shell, answers):
    for (words, offered, others), answer in zip(LINES, answers, strict=True):
        said = set(answer)
        case.check(offered <= said, f"{shell}, {words}: {offered - said} is not offered: {said}")
        case.equal(said & others, set(), f"{shell}, {words}: offered as well")


def check_pool(case, shell, complete):
    """Names come from the pool of the user who types, in no time where there is none."""
    pool = case.pool(servers=2, cards=1)
    folder = installed(case)[shell]
    session = pool.session(core=30)
    env = {**pool.env, "PATH": f"{case.build / 'bin'}:/usr/bin:/bin"}
    for words, offered in (
            (["gpupool", "drain", ""], {"local-1", "local-2"}),
            (["gpupool", "run", "--server", "local-2"], {"local-2"}),
            (["gpupool", "close", ""], {session.field("session")})):
        case.equal(set(complete(case, folder, words, env)), offered, f"{shell}, {words}")
    session.close()
    pool.stop()
    case.equal(set(complete(case, folder, ["gpupool", "drain", ""], env)), set(), "without a pool")


def test_bash_completes_commands_options_and_values(case):
    folder = installed(case)["bash"]
    check_lines(case, "bash", [bash(case, folder, words) for words, *_ in LINES])


def test_bash_completes_names_of_the_pool(case):
    check_pool(case, "bash", bash)


def test_bash_leaves_the_program_of_run_its_own_words(case):
    folder = installed(case)["bash"]
    (case.folder / "some-file").write_text("", encoding="utf-8")
    for words in (["gpupool", "run", "--core", "=", "3", "cat", f"{case.folder}/some-f"],
                  ["gpupool", "run", "--wait", "-v", "--", "cat", f"{case.folder}/some-f"]):
        case.equal(bash(case, folder, words), [f"{case.folder}/some-file"], f"{words}")
    case.equal(bash(case, folder, ["gpupool", "run", "--core", "30", "cat", "--cor"]), [],
               "options after the program")
    case.equal(bash(case, folder, ["gpupool", "run", "--placement", "=", "b"]), ["binpack"],
               "a value after =")


def test_bash_expands_nothing_that_a_pool_says(case):
    """A list is compared with what was typed, never run: here a gpupool of another kind."""
    folder = installed(case)["bash"]
    fake = case.folder / "bin" / "gpupool"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho '$(touch /tmp/never)'\necho '`echo x`'\necho good\n",
                    encoding="utf-8")
    fake.chmod(0o755)
    done = case.run(["bash", "--norc", "-c", BASH, "bash", folder / "gpupool", "gpupool",
                     "drain", ""], env={"PATH": f"{fake.parent}:/usr/bin:/bin"})
    case.equal(done.out.splitlines(), ["$(touch /tmp/never)", "`echo x`", "good"],
               "names as they are")


def test_zsh_completes_commands_options_and_values(case):
    case.need_tool("zsh")
    folder = installed(case)["zsh"]
    check_lines(case, "zsh", zsh(case, folder, *(words for words, *_ in LINES)))


def test_fish_completes_commands_options_and_values(case):
    case.need_tool("fish")
    folder = installed(case)["fish"]
    check_lines(case, "fish", [fish(case, folder, words) for words, *_ in LINES])
    check_pool(case, "fish", fish)

"""git keeps its repositories on the store."""

from ways import Way

AUTHOR = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_PAGER=cat LC_ALL=C\n" + "".join(
    f"export GIT_{role}_NAME=A GIT_{role}_EMAIL=a@example.org\n" for role in ("AUTHOR", "COMMITTER")
)


def test_git_keeps_its_history(way: Way) -> None:
    way.shell(
        AUTHOR
        + """
        git init -q -b main first && cd first
        mkdir src && for i in $(seq 60); do seq $i $((i + 400)) > src/file-$i; done
        git add . && git commit -qm one
        for i in $(seq 5); do echo change $i >> src/file-$i; git commit -qam "change $i"; done
        git mv src/file-60 src/renamed && chmod +x src/file-1 && ln -s file-2 src/link && git add . && git commit -qm moved
        git checkout -q -b side HEAD~3 && echo side >> src/file-30 && git commit -qam side
        git checkout -q main && git merge -q -m merged side
        test "$(git rev-list --count HEAD)" = 9 && test -z "$(git status --porcelain)" && git fsck --full --strict
        """,
        served=["open", "read", "write", "rename", "link", "stat"],
    )
    way.shell(
        AUTHOR
        + """
        git clone -q --no-hardlinks first second && git clone -q --bare first bare.git
        cd second && test "$(git rev-parse HEAD)" = "$(git -C ../first rev-parse HEAD)"
        echo more > src/more && git add . && git commit -qm more && git push -q ../bare.git main && git stash list
        git -C ../first pull -q --ff-only ../bare.git main && diff -r --exclude=.git ../first . && git -C ../first fsck
        """,
        served=["open", "read", "write"],
    )
    way.shell(
        AUTHOR
        + """
        cd first && git gc -q --aggressive --prune=now && git fsck --full && test "$(find .git/objects/pack -name '*.pack' | wc -l)" = 1
        git repack -qadf && git checkout -q HEAD~4 && git checkout -q main && test -z "$(git status --porcelain)"
        git worktree add -q ../tree side && git -C ../tree log --oneline | wc -l && git grep -c side -- src | grep -q file-30
        rm -rf src && git checkout -q -- . && git diff --quiet && git log -p --stat > /dev/null
        """,
        served=["read", "unlink"],
    )

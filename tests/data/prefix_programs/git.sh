git init -q -b main r && cd r && for i in $(seq 30); do mkdir -p d$i && seq $i 400 > d$i/f; done
git add . && git commit -qm one && git checkout -qb side && sed -i s/7/seven/ d*/f && git commit -qam two
git checkout -q main && echo x > new && git add new && git commit -qm three && git merge -q side -m merged && git gc -q
git log --oneline --graph && git fsck --strict && git status --short && cd .. && git clone -q r c && git clone -q --bare r b.git
cd c && git log --oneline | wc -l && git tag t && git push -q origin t && git stash list && echo y >> new && git stash -q && git stash pop -q
git diff --stat && git rebase -q HEAD~1 2>&1 | head -1; git worktree add -q ../w side~0 2>&1; git -C ../b.git repack -adq && git -C ../b.git count-objects

for shell in bash dash; do
    cat > s.sh <<'SCRIPT'
set -e
exec 3> three && echo to three >&3 && exec 3>&- && cat three
while read -r line; do echo "<$line>"; done < three
(cd / && pwd) && mkdir -p a/b && cd a/b && echo x > ../c && cd .. && ls && cd ..
set -C; (echo y > three) 2> /dev/null || echo kept; set +C
cat <<END > here
$(wc -l < three)
END
cat here; [ here -nt missing ] && [ -s here ] && echo newer
for f in *; do printf '%s ' "$f"; done; echo; trap 'echo trapped' EXIT
echo a | tee t1 t2 > /dev/null; cat t1 t2; umask 077; : > private; stat -c %a private; rm -r a t1 t2 private
SCRIPT
    $shell s.sh && rm three here
done
bash -c 'mapfile -t lines < s.sh; echo ${#lines[@]}; diff <(sort s.sh) <(sort s.sh) && echo {a,b}; shopt -s globstar; echo **' && mktemp -p . | wc -c

for i in $(seq 60); do mkdir -p d$i/sub && echo $i > d$i/sub/f; done && find . -name f -size -3c | wc -l && find . -type d -empty | wc -l
find . -name f -print0 | xargs -0 -P 4 -n 7 sha256sum | sort | sha256sum && find d1 d2 -depth -delete && find . -name f -newer d3/sub/f | wc -l > /dev/null
find . -name f -exec sh -c 'echo "$(cat "$1")x" > "$1"' _ {} ';' && grep -r --include=f x . | wc -l && du -a --apparent-size d3/sub/f && tree=$(ls -R | wc -l) && echo $tree

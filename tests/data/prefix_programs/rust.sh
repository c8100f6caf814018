echo 'fn main() { std::fs::write("f", "words").unwrap(); println!("{}", std::fs::read_to_string("f").unwrap()); }' > m.rs && rustc -C prefer-dynamic=no -o m m.rs && ./m && rm m

// Uses a directory from many goroutines, and checks what it sees. Prints "done".
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func worker(folder string, number int) {
	path := filepath.Join(folder, fmt.Sprintf("worker-%d", number))
	block := bytes.Repeat([]byte{byte('a' + number)}, 100_000)
	check(os.WriteFile(path, block, 0o640))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	check(err)
	for count := 0; count < 20; count++ {
		_, err = file.Write(block)
		check(err)
	}
	seen := make([]byte, 10)
	_, err = file.ReadAt(seen, int64(20*len(block)+50))
	check(err)
	if !bytes.Equal(seen, block[:10]) {
		panic("other bytes than written")
	}
	check(file.Truncate(77))
	check(syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
	check(file.Sync())
	check(file.Close())
	check(os.Rename(path, path+"-done"))
}

func main() {
	folder, err := os.MkdirTemp(os.Args[1], "go-")
	check(err)
	var group sync.WaitGroup
	for number := 0; number < 16; number++ {
		group.Add(1)
		go func(number int) {
			defer group.Done()
			worker(folder, number)
		}(number)
	}
	group.Wait()
	entries, err := os.ReadDir(folder)
	check(err)
	for _, entry := range entries {
		info, err := entry.Info()
		check(err)
		if info.Size() != 77 || filepath.Ext(entry.Name()) != "" {
			panic(entry.Name())
		}
	}
	if len(entries) != 16 {
		panic(len(entries))
	}
	check(os.MkdirAll(filepath.Join(folder, "a/b/c"), 0o755))
	check(os.Symlink("a/b", filepath.Join(folder, "link")))
	target, err := os.Readlink(filepath.Join(folder, "link"))
	check(err)
	if target != "a/b" {
		panic(target)
	}
	check(os.RemoveAll(folder))
	fmt.Println("done")
}

// Command prog is what the containers of the tests of the node agent run. They
// build it, statically; it stands in for the binary that images are made of. It
// owns what it is told to write, and nothing else.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(64)
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "pause", "demo":
		wait(syscall.SIGTERM)
	case "ignore": // only SIGKILL ends it
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ignoring")
		select {}
	case "exit":
		code, err := strconv.Atoi(args[0])
		if err != nil {
			os.Exit(64)
		}
		fmt.Fprintln(os.Stderr, strings.Join(args[1:], " "))
		os.Exit(code)
	case "print": // n lines, then wait
		n, err := strconv.Atoi(args[0])
		if err != nil {
			os.Exit(64)
		}
		for i := range n {
			fmt.Printf("line %d\n", i)
		}
		wait(syscall.SIGTERM)
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "cat":
		for _, p := range args {
			b, err := os.ReadFile(p)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			if _, err := os.Stdout.Write(b); err != nil {
				os.Exit(1)
			}
		}
	case "write": // path, text
		if err := os.WriteFile(args[0], []byte(args[1]), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "id":
		groups, _ := os.Getgroups()
		host, _ := os.Hostname()
		fmt.Println(os.Getuid(), os.Getgid(), groups, host)
	case "hog": // until the kernel ends it
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
			_ = all
		}
	case "serve":
		err := http.ListenAndServe(":"+args[0], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case "sleep":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			os.Exit(64)
		}
		time.Sleep(d)
	default:
		os.Exit(64)
	}
}

func wait(sig os.Signal) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, sig)
	<-ch
}

// Command prog is what the containers of the tests of the node agent run. They
// build it, statically; it stands in for the binary that images are made of. It
// owns what it is told to write, and nothing else.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
		lines(args[0])
		wait(syscall.SIGTERM)
	case "last": // says that it can be told; n lines once it is; then it is killed
		told := make(chan os.Signal, 1)
		signal.Notify(told, syscall.SIGTERM)
		fmt.Println("ready")
		<-told
		lines(args[0])
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		os.Exit(137) // the kernel keeps the first process of a namespace
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "flood": // n bytes
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			os.Exit(64)
		}
		b := bytes.Repeat([]byte("0"), 32<<10)
		for ; n > 0; n -= int64(len(b)) {
			if _, err := os.Stdout.Write(b[:min(n, int64(len(b)))]); err != nil {
				os.Exit(1)
			}
		}
	case "size": // of the terminal, whenever it changes
		size()
	case "echo": // on a port of the loopback interface
		echo(args[0])
	case "cat":
		if len(args) == 0 {
			if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
				os.Exit(1)
			}
		}
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

// lines prints n of them, numbered.
func lines(n string) {
	count, err := strconv.Atoi(n)
	if err != nil {
		os.Exit(64)
	}
	for i := range count {
		fmt.Printf("line %d\n", i)
	}
}

// size prints the size of the terminal that it runs on, after every change.
func size() {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGWINCH)
	for range ch {
		ws, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(ws.Col, ws.Row)
	}
}

// echo sends back what it gets; the end too.
func echo(port string) {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		go func() {
			_, _ = io.Copy(c, c) // the client has gone
			_ = c.Close()
		}()
	}
}

func wait(sig os.Signal) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, sig)
	<-ch
}

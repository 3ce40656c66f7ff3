// Command user is the program in the pods of a testbed's users. Without arguments it waits for a signal. With keep-writing, it writes to
// a file until the signal: see package writer. With others, from kubectl exec, it writes or reads a file, or prints a volume's size.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/lab/writer"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	switch {
	case len(args) == 0:
		<-ctx.Done()
		return nil
	case len(args) == 2 && args[0] == "keep-writing":
		return writer.Run(ctx, args[1], os.Stdout)
	case len(args) == 3 && args[0] == "write":
		return write(args[1], args[2])
	case len(args) == 2 && args[0] == "read":
		content, err := os.ReadFile(args[1])
		if err == nil {
			_, err = os.Stdout.Write(content)
		}
		return err
	case len(args) == 2 && args[0] == "size":
		var stat unix.Statfs_t
		if err := unix.Statfs(args[1], &stat); err != nil {
			return err
		}
		fmt.Println(stat.Blocks * uint64(stat.Bsize))
		return nil
	}
	return fmt.Errorf("got %q, want nothing, keep-writing FILE, write FILE CONTENT, read FILE, or size FOLDER", args)
}

// write writes a file, which is complete on the volume when it returns.
func write(path, content string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteString(content); err != nil {
		return err
	}
	return file.Sync()
}

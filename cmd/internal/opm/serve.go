package opm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/operator-framework/operator-registry/pkg/cache"
	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/server"
	"github.com/berth-csi/berth/cmd/internal/faults"
	"github.com/berth-csi/berth/cmd/internal/memory"
)

// The garbage collector's target percentages, while a catalog is read and afterwards. A server of catalogs is idle most of the time,
// in a container with little memory.
const (
	gcPercentToStart = 100
	gcPercent        = 40
)

// besides is the memory of a container outside of Go's allocations, in bytes: the program's data and the kernel's.
const besides = 9 << 20

// serve holds the flags of opm serve.
type serve struct {
	port           string
	cacheDir       string
	cacheOnly      bool
	terminationLog string
	profiles       profiles
}

func newServeCommand() *cobra.Command {
	s := &serve{}
	cmd := &cobra.Command{
		Use:   "serve DIR",
		Short: "Serve the catalog in a folder to OLM over gRPC, on all addresses",
		Long: `Serve the catalog in a folder to OLM over gRPC, on all addresses. It needs no cache: what --cache-dir names is neither read nor
written, and may belong to somebody else. With --cache-only, the cache is made all the same, for another opm. The root file system may be
read-only. A changed catalog is read again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := s.run(cmd, args[0])
			if err != nil {
				s.leave(cmd, err)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&s.port, "port", "p", "50051", "`PORT` to listen on")
	flags.StringVar(&s.cacheDir, "cache-dir", "", "`DIR` of the cache that --cache-only makes")
	flags.BoolVar(&s.cacheOnly, "cache-only", false, "make the cache, and serve nothing")
	flags.Bool("cache-enforce-integrity", false, "accepted, and has no effect: no cache is needed")
	flags.StringVarP(&s.terminationLog, "termination-log", "t", "/dev/termination-log", "`FILE` that gets the reason of a failure, if it exists")
	flags.StringVar(&s.profiles.address, "pprof-addr", "", "`HOST:PORT` to serve profiles of this program on (default none)")
	flags.BoolVar(&s.profiles.capture, "pprof-capture-profiles", false, "take a profile of the start, and serve it on /debug/pprof/startup/cpu")
	return cmd
}

func (s *serve) run(cmd *cobra.Command, dir string) error {
	if enforced, err := cmd.Flags().GetBool("cache-enforce-integrity"); err == nil && enforced && s.cacheDir == "" {
		return &usageError{errors.New("--cache-enforce-integrity is about the cache in --cache-dir, which is missing")}
	}
	if s.cacheOnly {
		return s.makeCache(cmd.Context(), dir)
	}
	limit := memory.OfContainer()
	memory.Tune(gcPercentToStart, max(limit-besides, limit/2))
	stop, err := s.profiles.begin(cmd.Context())
	if err != nil {
		return err
	}
	defer stop()
	return server.Serve(cmd.Context(), dir, server.Options{
		Address:    ":" + s.port,
		Folders:    s.folders(dir),
		Unchanging: true,
		Memory:     limit,
		Report: func(e server.Event) {
			switch {
			case e.Listening:
				s.profiles.started()
				memory.Settle(gcPercent)
				cmd.PrintErrf("serving registry %s on %s\n", dir, e.Address)
			case e.Err != nil:
				for _, line := range faults.Lines(&faults.Listed{Head: dir + " has changed and is not valid; still serving the earlier catalog:", Faults: e.Err}) {
					cmd.PrintErrln(line)
				}
			default:
				memory.Settle(gcPercent)
				cmd.PrintErrf("%s has changed; now serving it as it is\n", dir)
			}
		},
	})
}

// folders returns the folders where the server may store documents: if OLM extracts content, its container can only write to the cache.
func (s *serve) folders(dir string) []string {
	all := []string{os.TempDir()}
	if s.cacheDir != "" {
		all = append(all, s.cacheDir, filepath.Dir(filepath.Clean(s.cacheDir)))
	}
	return append(all, filepath.Dir(filepath.Clean(dir)))
}

// makeCache makes the cache that other opm programs need, with opm's library.
func (s *serve) makeCache(ctx context.Context, dir string) (err error) {
	if s.cacheDir == "" {
		return nil // opm makes a temporary cache here, and removes it again
	}
	store, err := cache.New(s.cacheDir)
	if err != nil {
		return fmt.Errorf("cache %s: %w", s.cacheDir, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := cache.LoadOrRebuild(ctx, store, os.DirFS(dir)); err != nil {
		return fmt.Errorf("cache %s of catalog %s: %w", s.cacheDir, dir, err)
	}
	return nil
}

// leave writes the reason for a failure to the termination message of the container.
func (s *serve) leave(cmd *cobra.Command, reason error) {
	file, err := os.OpenFile(s.terminationLog, os.O_WRONLY, 0)
	if err != nil {
		return // this is no container, or a read-only one
	}
	_, err = file.WriteString(strings.Join(faults.Lines(reason), "\n") + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		warn(cmd, err.Error())
	}
}

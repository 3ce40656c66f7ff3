package opm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	httpprofiles "net/http/pprof"
	"runtime/pprof"
	"sync/atomic"
	"time"
)

// profilesAddress is the address at which opm serves profiles by default.
const profilesAddress = "localhost:6060"

// profiles serves profiles of this program over HTTP, if flags request that.
type profiles struct {
	address string
	capture bool

	taken bytes.Buffer // the profile of the start
	ready atomic.Bool
}

// begin starts serving profiles, if requested. It returns a function that stops it.
func (p *profiles) begin(ctx context.Context) (stop func(), err error) {
	if p.capture && p.address == "" {
		p.address = profilesAddress
	}
	if p.address == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return nil, fmt.Errorf("--pprof-addr: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", httpprofiles.Index)
	mux.HandleFunc("/debug/pprof/cmdline", httpprofiles.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", httpprofiles.Profile)
	mux.HandleFunc("/debug/pprof/symbol", httpprofiles.Symbol)
	mux.HandleFunc("/debug/pprof/trace", httpprofiles.Trace)
	mux.HandleFunc("/debug/pprof/startup/cpu", p.startup)
	web := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10, BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	if p.capture {
		if err := pprof.StartCPUProfile(&p.taken); err != nil {
			return nil, errors.Join(err, web.Close())
		}
	}
	return func() {
		p.started()
		_ = web.Close()
		<-ended
	}, nil
}

// started ends the profile of the start.
func (p *profiles) started() {
	if p.capture && !p.ready.Load() {
		pprof.StopCPUProfile()
		p.ready.Store(true)
	}
}

func (p *profiles) startup(w http.ResponseWriter, _ *http.Request) {
	if !p.ready.Load() {
		http.Error(w, "the program has not started yet, or --pprof-capture-profiles is missing", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write(p.taken.Bytes())
}

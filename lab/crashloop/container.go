package crashloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Init must be called at the beginning of main by the program that is the operator's image. It does not return in the
// operator's container.
func Init() {
	mode, found := strings.CutPrefix(filepath.Base(os.Args[0]), prefix)
	if !found {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, Mode(mode)); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "crashloop: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run runs the operator, one life after another, and writes the record.
func run(ctx context.Context, mode Mode) error {
	begin, found := injectors[mode]
	if !found {
		return fmt.Errorf("the mode is %q, want %s or %s", mode, Recorded, Killed)
	}
	injector := begin(reviews...)
	cluster, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	var lives atomic.Int64
	ended := make(chan error)
	go func() {
		ended <- injector.Run(ctx, cluster, func(ctx context.Context, cfg *rest.Config) error {
			lives.Add(1)
			return live(ctx, cfg)
		})
	}()
	beside := filepath.Dir(os.Args[0])
	path := filepath.Join(beside, strings.Replace(recordPattern, "*", fmt.Sprint(time.Now().UnixNano()), 1))
	record := func() error {
		return write(path, Record{Lives: int(lives.Load()), Writes: injector.Writes(), Idle: injector.Idle()})
	}
	for {
		select {
		case <-time.After(recordEvery):
			if err := record(); err != nil {
				return err
			}
		case err := <-ended:
			return errors.Join(err, record())
		}
	}
}

// recordEvery is the interval at which the record is written.
const recordEvery = 200 * time.Millisecond

// write replaces a record atomically.
func write(path string, record Record) error {
	content, err := json.Marshal(record)
	if err != nil {
		return err
	}
	fresh := path + ".new"
	if err := os.WriteFile(fresh, content, 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// live runs one life of the operator: a process that reaches the API server only through this configuration.
func live(ctx context.Context, cfg *rest.Config) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	proxy, err := newProxy(cfg)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: proxy}
	defer server.Close()
	go server.Serve(listener)

	kubeconfig, err := writeKubeconfig("http://" + listener.Addr().String())
	if err != nil {
		return err
	}
	operator := exec.CommandContext(ctx, filepath.Join(filepath.Dir(os.Args[0]), operatorName), append(os.Args[1:], "--kubeconfig="+kubeconfig)...)
	operator.Stdout, operator.Stderr = os.Stdout, os.Stderr
	if err := operator.Run(); ctx.Err() == nil {
		return errors.Join(errors.New("the operator has exited"), err)
	}
	return nil
}

// newProxy returns a proxy that forwards requests to the API server. If there is no response, it breaks the connection.
func newProxy(cfg *rest.Config) (http.Handler, error) {
	target, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // do not buffer events of a watch
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:      log.New(io.Discard, "", 0),
	}, nil
}

// writeKubeconfig writes a kubeconfig file for a server, and returns its path.
func writeKubeconfig(server string) (string, error) {
	const name = "proxy"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	config.CurrentContext = name
	path := os.TempDir() + "/kubeconfig" // private to the container
	return path, clientcmd.WriteToFile(*config, path)
}

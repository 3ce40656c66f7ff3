package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// programVariable makes the test's executable a container's program, and selects its action.
const programVariable = "TEST_PROGRAM"

var programs = map[string]func() error{
	"serve":   serve,
	"fail":    fail,
	"succeed": func() error { return nil },
}

// beProgram never returns if this process is a container's program.
func beProgram() {
	name, asked := os.LookupEnv(programVariable)
	if !asked {
		return
	}
	if err := programs[name](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// fail returns an error for the termination message.
func fail() error { return errors.New("the sky is falling") }

// self is a program's report about itself.
type self struct {
	PID   int
	Args  []string
	Env   []string
	Child int
}

// serve responds to requests until it is told to terminate. Its options are variables.
func serve() error {
	fmt.Println("serving")
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)

	me := self{PID: os.Getpid(), Args: os.Args[1:], Env: os.Environ()}
	if os.Getenv("WITH_CHILD") != "" {
		child := exec.Command("sleep", "3600")
		if err := child.Start(); err != nil {
			return err
		}
		me.Child = child.Process.Pid
	}
	var unready, unhealthy atomic.Bool
	unready.Store(os.Getenv("UNREADY") != "")
	unhealthyIf := func(bad *atomic.Bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				bad.Store(r.FormValue("value") != "true")
			}
			if bad.Load() && r.Method == http.MethodGet {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/self", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(me) })
	mux.HandleFunc("/ready", unhealthyIf(&unready))
	mux.HandleFunc("/healthy", unhealthyIf(&unhealthy))
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { answer(w)(os.ReadFile(r.FormValue("path"))) })
	mux.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		answer(w)(nil, os.WriteFile(r.FormValue("path"), []byte("written"), 0o644))
	})
	mux.HandleFunc("/list", func(w http.ResponseWriter, r *http.Request) { answer(w)(list(r.Context(), r.FormValue("resource"))) })
	mux.HandleFunc("/say", func(_ http.ResponseWriter, r *http.Request) { fmt.Println(r.FormValue("words")) })
	mux.HandleFunc("/exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		os.Exit(code)
	})
	listener, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("POD_IP"), "8080"))
	if err != nil {
		return err
	}
	go http.Serve(listener, mux)
	for range signals {
		fmt.Println("told to terminate")
		if os.Getenv("STUBBORN") == "" {
			return nil
		}
	}
	return nil
}

// answer writes content or the error.
func answer(w http.ResponseWriter) func([]byte, error) {
	return func(content []byte, err error) {
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			content = []byte(err.Error())
		}
		w.Write(content)
	}
}

// list sends a request to the API server with the credentials of the pod.
func list(ctx context.Context, resource string) ([]byte, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return nil, err
	}
	result := client.CoreV1().RESTClient().Get().Namespace(string(namespace)).Resource(resource).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// ask sends a request to the program of a pod.
func ask(ctx context.Context, ip, path string) (string, error) {
	return send(ctx, http.MethodGet, ip, path)
}

func send(ctx context.Context, method, ip, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+net.JoinHostPort(ip, "8080")+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", path, response.StatusCode, body)
	}
	return string(body), err
}

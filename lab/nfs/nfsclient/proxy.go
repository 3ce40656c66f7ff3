package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-csi/berth/lab/nfs/wire"
)

// tunnelConfig is the configuration that mount.efs writes for efs-proxy, in the format of stunnel.
type tunnelConfig map[string]string

// proxyFlags are the flags of efs-proxy 3.2.
var proxyFlags = []string{"--tls", "--no-direct-s3-read"}

// proxy is efs-proxy. It listens where the configuration says until it fails or is killed, and connects each connection
// to the mount target. It speaks no TLS: it sends the certificate instead.
func proxy(args []string) error {
	if len(args) == 0 {
		return errors.New("the following required arguments were not provided: <PROXY_CONFIG_PATH>")
	}
	for _, flag := range args[1:] {
		if !slices.Contains(proxyFlags, flag) {
			return fmt.Errorf("unexpected argument '%s' found", flag)
		}
	}
	config, err := readTunnelConfig(args[0])
	if err != nil {
		return err
	}
	// For the watchdog. The real one ignores the error, too.
	_ = os.WriteFile(config["pid"], []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644)
	tunnel := &wire.Tunnel{Host: config["checkHost"]}
	if slices.Contains(args, "--tls") {
		for _, needed := range []string{"cert", "key", "CAfile"} {
			content, err := os.ReadFile(config[needed])
			if err != nil {
				return fmt.Errorf("%s of %s: %w", needed, args[0], err)
			}
			if needed == "cert" {
				tunnel.Certificate = content
			}
		}
	} else {
		tunnel.Host, _, _ = net.SplitHostPort(config["connect"])
	}
	listener, err := net.Listen("tcp", config["accept"])
	if err != nil {
		return err
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		go forward(client, config["connect"], tunnel)
	}
}

// dialLimit is how long connecting to the mount target may take.
const dialLimit = 10 * time.Second

// forward connects a client to the mount target. If that is not possible, it closes the connection, as the real one
// does.
func forward(client net.Conn, to string, tunnel *wire.Tunnel) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", to, dialLimit)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer server.Close()
	if err := json.NewEncoder(server).Encode(wire.Greeting{Tunnel: tunnel}); err != nil {
		return
	}
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			io.Copy(to, from)
			to.(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}

func readTunnelConfig(path string) (tunnelConfig, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	config := tunnelConfig{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " = "); ok {
			config[name] = value
		}
	}
	for _, needed := range []string{"accept", "connect", "fs_id", "region"} {
		if config[needed] == "" {
			return nil, fmt.Errorf("%s has no %s", path, needed)
		}
	}
	return config, nil
}

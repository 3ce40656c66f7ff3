package efs

//lint:file-ignore ST1005 errors are in the words of the real driver, which tests and pages compare

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/berth-csi/berth/lab/nfs/client"
	"github.com/berth-csi/berth/lab/nfs/wire"
)

// source is a mount source: a directory of a file system, with the options of mount.efs.
type source struct {
	fileSystem, path string
	options          []string
}

// ofEFS are the options that mount.efs does not pass on to mount.nfs4.
var ofEFS = []string{
	"accesspoint", "awscredsuri", "awsprofile", "az", "cafile", "crossaccount", "iam", "jwtpath", "mounttargetip", "netns", "nodirects3read", "noocsp", "nos3readcache",
	"notls", "ocsp", "region", "rolearn", "stunnel", "tls", "tlsport", "verify",
}

// failure is how mount.efs ends without a mount.
type failure struct {
	code   int
	output string
}

func (f *failure) Error() string { return f.output }

// failed returns a failure that mount.efs itself finds.
func failed(format string, a ...any) error { return &failure{1, fmt.Sprintf(format, a...)} }

// mounter mounts file systems from the driver's place.
type mounter struct{ place place }

// mount mounts a source at a folder. The error is mount(8)'s output.
func (m mounter) mount(ctx context.Context, s source, target string) error {
	err := m.try(ctx, s, target)
	log(s, target, err)
	var ended *failure
	if errors.As(err, &ended) {
		spec := s.fileSystem + ":" + s.path
		return fmt.Errorf("mount failed: exit status %d\nMounting command: mount\nMounting arguments: -t efs -o %s %s %s\nOutput: %s\n",
			ended.code, strings.Join(s.options, ","), spec, target, ended.output)
	}
	return err
}

// logFolder is where mount.efs logs, if it exists.
const logFolder = "/var/log/amazon/efs"

// log writes how a mount ended to the log of mount.efs, with its words for success.
func log(s source, target string, failure error) {
	file, err := os.OpenFile(filepath.Join(logFolder, "mount.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return // as for mount.efs, a mount matters more than its log
	}
	defer file.Close()
	level, text := "INFO", fmt.Sprintf("Successfully mounted %s at %s", s.fileSystem, target)
	if failure != nil {
		level, text = "ERROR", fmt.Sprintf("Failed to mount %s at %s: %q", s.fileSystem, target, failure)
	}
	fmt.Fprintf(file, "%s - %s - %s\n", time.Now().UTC().Format("2006-01-02 15:04:05 UTC"), level, text)
}

// try is mount.efs.
func (m mounter) try(ctx context.Context, s source, target string) error {
	options, settings, err := separate(s.options)
	if err != nil {
		return err
	}
	if err := checkOptions(settings); err != nil {
		return err
	}
	host, err := m.hostOf(ctx, s.fileSystem, settings)
	if err != nil {
		return err
	}
	address := settings["mounttargetip"]
	if address == "" {
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return failed("Failed to resolve \"%s\" - check that your file system ID is correct, and ensure that the VPC has an EFS mount target for this file system ID.\n"+
				"See https://docs.aws.amazon.com/console/efs/mount-dns-name for more detail.", host)
		}
		address = found[0]
	}
	if _, signs := settings["iam"]; signs {
		if err := instanceCredentials(ctx); err != nil {
			return err
		}
	}
	tunnel := &wire.Tunnel{Host: host}
	if _, encrypts := settings["tls"]; encrypts {
		if tunnel.Certificate, err = certificate(s.fileSystem, settings["accesspoint"]); err != nil {
			return err
		}
	}
	return attach(ctx, client.Mount{Address: address, Path: s.path, Tunnel: tunnel, Options: options}, target, settings["accesspoint"] != "")
}

// separate separates NFS's options from mount.efs's, which it returns with their values.
func separate(all []string) (client.Options, map[string]string, error) {
	options, settings := client.Defaults(), map[string]string{}
	options.Version, options.Retry = "4.1", 0
	for _, option := range all {
		switch name, value, _ := strings.Cut(option, "="); {
		case slices.Contains(ofEFS, name):
			settings[name] = value
		case name == "port":
			settings[name] = value // without effect: the server is behind the tunnel
		case name == "capath":
			return options, nil, failed("Unsupported mount options detected: \"capath\"")
		case !options.Apply(option):
			return options, nil, &failure{syscallFailed, "b'mount.nfs4: an incorrect mount option was specified'"}
		}
	}
	return options, settings, nil
}

var accessPointID = regexp.MustCompile(`^fsap-[0-9a-f]{17}$`)

// checkOptions fails if mount.efs refuses the options or their combination.
func checkOptions(settings map[string]string) error {
	has := func(name string) bool {
		_, yes := settings[name]
		return yes
	}
	switch {
	case has("tls") && has("port"):
		return failed(`The "port" and "tls" options are mutually exclusive`)
	case has("tls") && has("notls"):
		return failed(`The "tls" and "notls" options are mutually exclusive`)
	case has("ocsp") && has("noocsp"):
		return failed(`The "ocsp" and "noocsp" options are mutually exclusive`)
	case has("accesspoint") && !has("tls"):
		return failed(`The "tls" option is required when mounting via "accesspoint"`)
	case has("accesspoint") && !accessPointID.MatchString(settings["accesspoint"]):
		return failed("Access Point ID %s is malformed", settings["accesspoint"])
	case has("iam") && !has("tls"):
		return failed(`The "tls" option is required when mounting via "iam"`)
	case has("awsprofile") && !has("iam"):
		return failed(`The "iam" option is required when mounting with named profile option, "awsprofile"`)
	case has("mounttargetip") && has("crossaccount"):
		return failed("mounttargetip option is incompatible with crossaccount option.")
	}
	return nil
}

// hostOf returns the name of a file system's mount targets, or of the one in a zone.
func (m mounter) hostOf(ctx context.Context, fileSystem string, settings map[string]string) (string, error) {
	region, zone := settings["region"], settings["az"]
	if region == "" {
		region = m.place.region
	}
	if _, byID := settings["crossaccount"]; byID {
		var err error
		if zone, err = zoneID(ctx); err != nil {
			return "", failed("Cannot retrieve AZ-ID from metadata service. This is required for the crossaccount mount option.")
		}
	}
	host := fileSystem + ".efs." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	if zone != "" {
		host = zone + "." + host
	}
	return host, nil
}

func zoneID(ctx context.Context) (string, error) {
	client, err := metadata(ctx)
	if err != nil {
		return "", err
	}
	found, err := client.GetMetadata(ctx, &imds.GetMetadataInput{Path: "placement/availability-zone-id"})
	if err != nil {
		return "", err
	}
	defer found.Content.Close()
	id := make([]byte, 64)
	n, err := found.Content.Read(id)
	if n == 0 {
		return "", err
	}
	return string(id[:n]), nil
}

// instanceCredentials fails unless the instance has a role.
func instanceCredentials(ctx context.Context) error {
	client, err := metadata(ctx)
	if err == nil {
		_, err = ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = client }).Retrieve(ctx)
	}
	if err != nil {
		return failed("AWS Access Key ID and Secret Access Key are not found in AWS credentials file (/root/.aws/credentials), config file (/root/.aws/config), " +
			"from ECS credentials relative uri, or from the instance security credentials service")
	}
	return nil
}

// certificate makes a certificate that names a file system, and an access point unless that is empty.
func certificate(fileSystem, accessPoint string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: fileSystem}, NotBefore: time.Now(), NotAfter: time.Now().Add(3 * time.Hour),
	}
	for _, extension := range []struct {
		id    asn1.ObjectIdentifier
		value string
	}{{wire.AccessPointExtension, accessPoint}, {wire.FileSystemExtension, fileSystem}} {
		if extension.value == "" {
			continue
		}
		value, err := asn1.MarshalWithParams(extension.value, "utf8")
		if err != nil {
			return nil, err
		}
		template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: extension.id, Value: value})
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), nil
}

const (
	// syscallFailed is the exit code of mount.nfs4 when it cannot mount.
	syscallFailed = 32
	// attempts is how often mount.efs calls mount.nfs4.
	attempts = 3
)

// passing are errors after which mount.efs tries again. After refusal, it tries again only for an access point, which EFS may not know
// everywhere yet.
var (
	passing = []error{syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.ETIMEDOUT, syscall.EHOSTUNREACH}
	refusal = error(syscall.EACCES)
)

// attach mounts at an existing folder. An existing mount stays.
func attach(ctx context.Context, m client.Mount, target string, isAccessPoint bool) error {
	if info, err := os.Stat(target); err != nil || !info.IsDir() {
		return failed("mount point %s does not exist", target)
	}
	said, pause := "", time.Second
	for attempt := 1; ; attempt++ {
		err := m.Attach(target)
		if err == nil {
			return nil
		}
		text := fmt.Sprintf("b'mount.nfs4: %s'", client.Explain(err, "127.0.0.1:"+m.Path, target))
		again := isAccessPoint && errors.Is(err, refusal) || slices.ContainsFunc(passing, func(e error) bool { return errors.Is(err, e) })
		if attempt == attempts || !again {
			return &failure{syscallFailed, said + text}
		}
		said += fmt.Sprintf("Mount attempt %d/%d failed due to %s, wait %d sec before next attempt.\n", attempt, attempts, text, int(pause.Seconds()))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

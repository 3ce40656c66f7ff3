package cluster

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

// controlPlane has the addresses and files of a control plane.
type controlPlane struct {
	tools   tools.Dir
	dir     string
	durable bool
	// managerQPS is the limit of requests per second of each controller in the controller manager.
	managerQPS int
	address    string
	pki        *pki

	etcdPort, etcdPeerPort, apiPort, managerPort, schedulerPort int

	// egressProxy is the Unix socket of the proxy through which the API server reaches real nodes; empty without real
	// nodes.
	egressProxy string
	// serviceProxy is the address of the proxy through which OLM reaches Services on real nodes; empty without real nodes.
	serviceProxy string
	// opmImage is the image that OLM uses to serve catalogs after extracting their content; OLM's own if it is empty.
	opmImage string
}

// Files with the keys of tokens: the one that signs, and all that are trusted.
const (
	tokenKey         = "service-accounts.key"
	trustedTokenKeys = "service-accounts-trusted.key"
)

// openShiftManagerQPS is OpenShift's value. With the default of 20 per second, garbage collection is slow.
const openShiftManagerQPS = 150

func planControlPlane(job assignment, subnet *subnet) (*controlPlane, error) {
	ports, err := subnet.reservePorts(5)
	if err != nil {
		return nil, err
	}
	identities, err := newPKI()
	if err != nil {
		return nil, fmt.Errorf("create the cluster's certificates: %w", err)
	}
	return &controlPlane{
		tools: job.Tools, dir: job.Dir, durable: job.Options.Durable,
		managerQPS: cmp.Or(job.Options.ManagerQPS, openShiftManagerQPS), address: subnet.controlPlane(), pki: identities, opmImage: job.Options.OPMImage,
		etcdPort: ports[0], etcdPeerPort: ports[1], apiPort: ports[2], managerPort: ports[3], schedulerPort: ports[4],
	}, nil
}

// Users of the control plane's components, with their groups. The API server's built-in RBAC refers to these names.
var (
	adminUser     = user{"system:admin", []string{"system:masters"}}
	managerUser   = user{"system:kube-controller-manager", nil}
	schedulerUser = user{"system:kube-scheduler", nil}
	// In system:masters, unlike in a real cluster, where they are bound to cluster-admin.
	cloudCredentialUser = user{"system:serviceaccount:" + cloudcredential.Namespace + ":cloud-credential-operator", []string{"system:masters"}}
	kubeletClient       = user{"system:kube-apiserver", []string{"system:masters"}}
)

// user is the identity in a client certificate.
type user struct {
	name   string
	groups []string
}

// writeFiles writes the files that the programs read: certificates, kubeconfigs and configuration.
func (c *controlPlane) writeFiles() error {
	for _, folder := range []string{"pki", "etcd", "flex"} {
		if err := os.MkdirAll(c.path(folder), 0o755); err != nil {
			return err
		}
	}
	serving, err := c.pki.server(c.address)
	if err != nil {
		return err
	}
	proxy, err := c.pki.proxy("front-proxy-client")
	if err != nil {
		return err
	}
	kubelet, err := c.pki.client(kubeletClient.name, kubeletClient.groups...)
	if err != nil {
		return err
	}
	for name, pair := range map[string]keyPair{
		"clients-ca": c.pki.clients.keyPair, "servers-ca": c.pki.servers.keyPair, "front-proxy-ca": c.pki.frontProxy.keyPair,
		"serving": serving, "front-proxy-client": proxy, "kubelet-client": kubelet,
	} {
		if err := pair.write(c.path("pki"), name); err != nil {
			return err
		}
	}
	for name, user := range map[string]user{
		adminKubeconfig: adminUser, "kube-controller-manager.kubeconfig": managerUser, "kube-scheduler.kubeconfig": schedulerUser,
	} {
		if err := c.writeKubeconfig(name, user); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{
		"pki/" + tokenKey:         string(c.pki.serviceAccounts),
		"pki/" + trustedTokenKeys: string(c.pki.serviceAccounts),
		"audit-policy.yaml":       auditPolicy,
		"kube-scheduler.yaml":     fmt.Sprintf(schedulerConfig, c.path("kube-scheduler.kubeconfig")),
		"egress.yaml":             fmt.Sprintf(egressConfig, c.egressProxy),
	} {
		if err := os.WriteFile(c.path(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// auditPolicy records all requests for objects, including reads: they show which permissions an operator uses.
// Watches are also recorded when they start, as many never end. Health checks and the API server's own requests are
// left out.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver"]
- level: None
  nonResourceURLs: ["/healthz*", "/readyz*", "/livez*", "/version", "/openapi*"]
- level: Metadata
`

// schedulerConfig raises the scheduler's limits like the controller manager's.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %q
  qps: 150
  burst: 300
`

// egressConfig makes the API server connect to kubelets, pods and webhooks by a proxy.
const egressConfig = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: %q
`

// etcd returns the program etcd. A test can afford to lose its data when the machine fails, so by default it does not sync to disk.
func (c *controlPlane) etcd() program {
	client := c.etcdURL()
	args := append([]string{
		"--data-dir=" + c.etcdData(),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + c.etcdPeerURL(),
		"--log-level=warn",
	}, c.etcdMember()...)
	if !c.durable {
		args = append(args, "--unsafe-no-fsync")
	}
	return c.program("etcd", args...)
}

// etcdMember returns etcd's flags that identify the member and its cluster.
func (c *controlPlane) etcdMember() []string {
	return []string{"--name=berth", "--initial-advertise-peer-urls=" + c.etcdPeerURL(), "--initial-cluster=berth=" + c.etcdPeerURL()}
}

func (c *controlPlane) etcdURL() string     { return "http://" + c.hostPort(c.etcdPort) }
func (c *controlPlane) etcdPeerURL() string { return "http://" + c.hostPort(c.etcdPeerPort) }
func (c *controlPlane) etcdData() string    { return c.path("etcd") }

func (c *controlPlane) apiServer() program {
	p := c.program("kube-apiserver",
		"--etcd-servers="+c.etcdURL(),
		"--bind-address="+c.address, "--secure-port="+strconv.Itoa(c.apiPort),
		// The API server refuses to publish a loopback address in the Endpoints of the Service "kubernetes". Pods get
		// it from their node instead.
		"--advertise-address="+c.address, "--endpoint-reconciler-type=none",
		"--tls-cert-file="+c.pkiPath("serving.crt"), "--tls-private-key-file="+c.pkiPath("serving.key"),
		"--service-cluster-ip-range=10.217.0.0/16",
		"--allow-privileged",

		"--authorization-mode=Node,RBAC",
		// As on OpenShift: changing an object's owner takes the permission to delete the object.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--client-ca-file="+c.pkiPath("clients-ca.crt"),
		"--requestheader-client-ca-file="+c.pkiPath("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file="+c.pkiPath("front-proxy-client.crt"), "--proxy-client-key-file="+c.pkiPath("front-proxy-client.key"),
		"--kubelet-client-certificate="+c.pkiPath("kubelet-client.crt"), "--kubelet-client-key="+c.pkiPath("kubelet-client.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.pkiPath(trustedTokenKeys),
		"--service-account-signing-key-file="+c.pkiPath(tokenKey),

		"--audit-policy-file="+c.path("audit-policy.yaml"),
		"--audit-log-path="+c.path(auditLogName),
		"--audit-log-maxsize=100000", // MiB: never rotate, to keep the log in one file

		// As on OpenShift. A real node's name cannot be resolved.
		"--kubelet-preferred-address-types=InternalIP",

		"--max-requests-inflight=3000", "--max-mutating-requests-inflight=1500",
		"--profiling=false",
	)
	if c.egressProxy != "" {
		p.args = append(p.args, "--egress-selector-config-file="+c.path("egress.yaml"))
	}
	// Half of the time that tests take is the API server's. By default a fifth of that is garbage collection.
	p.env = []string{"GOGC=300"}
	return p
}

func (c *controlPlane) controllerManager() program {
	return c.program("kube-controller-manager",
		"--kubeconfig="+c.path("kube-controller-manager.kubeconfig"),
		"--authentication-kubeconfig="+c.path("kube-controller-manager.kubeconfig"),
		"--authorization-kubeconfig="+c.path("kube-controller-manager.kubeconfig"),
		"--bind-address="+c.address, "--secure-port="+strconv.Itoa(c.managerPort),
		"--tls-cert-file="+c.pkiPath("serving.crt"), "--tls-private-key-file="+c.pkiPath("serving.key"),
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--root-ca-file="+c.pkiPath("servers-ca.crt"),
		"--service-account-private-key-file="+c.pkiPath(tokenKey),
		"--cluster-signing-cert-file="+c.pkiPath("clients-ca.crt"), "--cluster-signing-key-file="+c.pkiPath("clients-ca.key"),
		"--kube-api-qps="+strconv.Itoa(c.managerQPS), "--kube-api-burst="+strconv.Itoa(2*c.managerQPS),
		// Pods have loopback addresses, which are invalid in endpoints: these controllers would keep failing.
		"--controllers=*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller",
		"--flex-volume-plugin-dir="+c.path("flex"), // the default is a system folder
		"--profiling=false",
	)
}

func (c *controlPlane) scheduler() program {
	return c.program("kube-scheduler",
		"--config="+c.path("kube-scheduler.yaml"),
		"--authentication-kubeconfig="+c.path("kube-scheduler.kubeconfig"),
		"--authorization-kubeconfig="+c.path("kube-scheduler.kubeconfig"),
		"--bind-address="+c.address, "--secure-port="+strconv.Itoa(c.schedulerPort),
		"--tls-cert-file="+c.pkiPath("serving.crt"), "--tls-private-key-file="+c.pkiPath("serving.key"),
	)
}

func (c *controlPlane) program(tool string, args ...string) program {
	return program{name: tool, path: c.tools.Path(tool), args: args}
}

func (c *controlPlane) hostPort(port int) string {
	return net.JoinHostPort(c.address, strconv.Itoa(port))
}

func (c *controlPlane) path(name string) string { return filepath.Join(c.dir, name) }

func (c *controlPlane) pkiPath(name string) string { return filepath.Join(c.dir, "pki", name) }

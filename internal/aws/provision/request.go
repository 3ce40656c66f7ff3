package provision

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/aws/ownership"
)

// providerID matches the provider ID of a node on AWS, such as "aws:///us-east-1a/i-0123456789abcdef0".
var providerID = regexp.MustCompile(`^aws:///[^/]*/(i-[0-9a-f]+)$`)

// maxNodes is the maximum number of nodes to read. They are only needed to find their VPC, subnets and security groups.
const maxNodes = 5000

// RequestFor returns a request for a cluster, without a name or access points, and the cluster's region. It trusts the Infrastructure and
// the Nodes, because only administrators can write them.
func RequestFor(ctx context.Context, c client.Reader) (request Request, region string, err error) {
	infrastructure := &configv1.Infrastructure{}
	if err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, infrastructure); err != nil {
		return Request{}, "", fmt.Errorf("reading Infrastructure cluster: %w", err)
	}
	platform := infrastructure.Status.PlatformStatus
	if platform == nil || platform.AWS == nil || platform.AWS.Region == "" {
		return Request{}, "", errors.New("the Infrastructure cluster has no region in status.platformStatus.aws: the cluster is not on AWS")
	}
	request = Request{Cluster: ownership.Cluster(infrastructure.Status.InfrastructureName), Tags: map[string]string{}}
	for _, tag := range platform.AWS.ResourceTags {
		request.Tags[tag.Key] = tag.Value
	}
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes, client.Limit(maxNodes)); err != nil {
		return Request{}, "", fmt.Errorf("listing nodes: %w", err)
	}
	for _, node := range nodes.Items {
		if match := providerID.FindStringSubmatch(node.Spec.ProviderID); match != nil {
			request.Instances = append(request.Instances, match[1])
		}
	}
	return request, platform.AWS.Region, nil
}

var permissions = regexp.MustCompile(`^0?[0-7]{3}$`)

// ParseAccessPoint reads an access point of the form PATH, PATH:UID:GID or PATH:UID:GID:PERMISSIONS. By default, its user is
// 1000:1000, and the permissions are 0755.
func ParseAccessPoint(text string) (AccessPoint, error) {
	point := AccessPoint{UID: 1000, GID: 1000, Permissions: "0755"}
	parts := strings.Split(text, ":")
	fail := func(what string) (AccessPoint, error) {
		return AccessPoint{}, fmt.Errorf("access point is %q, want PATH:UID:GID:PERMISSIONS, such as /team-a:1000:1000:0755: %s", text, what)
	}
	point.Path = parts[0]
	if !strings.HasPrefix(point.Path, "/") || point.Path == "/" || strings.HasSuffix(point.Path, "/") || len(point.Path) > 100 || strings.Count(point.Path, "/") > 4 {
		return fail("the path must be absolute, with one to four directories and at most 100 characters")
	}
	switch len(parts) {
	case 1:
	case 3, 4:
		for i, id := range []*int64{&point.UID, &point.GID} {
			n, err := strconv.ParseUint(parts[i+1], 10, 32)
			if err != nil {
				return fail("a user and a group are numbers up to 4294967295")
			}
			*id = int64(n)
		}
	default:
		return fail("there are too many or too few parts")
	}
	if len(parts) == 4 {
		if point.Permissions = parts[3]; !permissions.MatchString(point.Permissions) {
			return fail("permissions are three octal digits, with or without 0 in front")
		}
	}
	return point, nil
}

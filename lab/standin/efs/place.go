package efs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// place is where the driver's node is.
type place struct{ instance, region, zone string }

// findPlace asks the metadata service of the instance or, if that does not answer, the API server for the Node.
func findPlace(ctx context.Context) (place, error) {
	client, err := metadata(ctx)
	if err != nil {
		return place{}, err
	}
	if _, err := client.GetMetadata(ctx, &imds.GetMetadataInput{Path: "instance-id"}); err != nil {
		klog.Infof("retrieving metadata from Kubernetes API: %v", err)
		return placeOfNode(ctx)
	}
	found, err := client.GetInstanceIdentityDocument(ctx, &imds.GetInstanceIdentityDocumentInput{})
	if err != nil {
		return place{}, fmt.Errorf("could not get EC2 instance identity metadata: %w", err)
	}
	p := place{found.InstanceID, found.Region, found.AvailabilityZone}
	if p.instance == "" || p.region == "" || p.zone == "" {
		return place{}, fmt.Errorf("could not get a valid EC2 instance ID, region and availability zone: got %+v", p)
	}
	return p, nil
}

// metadata returns a client of the metadata service.
func metadata(ctx context.Context) (*imds.Client, error) {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	return imds.NewFromConfig(settings), nil
}

var instanceID = regexp.MustCompile("i-[a-z0-9]+$|[a-z0-9]{32}")

func placeOfNode(ctx context.Context) (place, error) {
	api, err := apiServer()
	if err != nil {
		return place{}, fmt.Errorf("could not create MetadataProvider from any source: %w", err)
	}
	name := os.Getenv(nodeName)
	if name == "" {
		return place{}, errors.New(nodeName + " env var not set")
	}
	node, err := api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return place{}, fmt.Errorf("error getting Node %s: %w", name, err)
	}
	id := instanceID.FindString(node.Spec.ProviderID)
	if id == "" {
		return place{}, fmt.Errorf("did not find aws instance ID in node providerID %q", node.Spec.ProviderID)
	}
	return place{id, node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelTopologyZone]}, nil
}

// nodeName is the variable with the name of the Node.
const nodeName = "CSI_NODE_NAME"

// apiServer returns a client of the cluster that the driver runs in.
func apiServer() (kubernetes.Interface, error) {
	settings, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(settings)
}

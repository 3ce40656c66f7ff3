package aws_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/aws/metadata"
)

func TestMetadata(t *testing.T) {
	c := aws.Start(t, aws.Options{Region: "sea-west-1"})
	instance, err := c.EC2.AddInstance(ec2.Instance{Type: "m5.large", Zone: "sea-west-1b", PrivateIP: "10.0.0.7"})
	require.NoError(t, err)
	m := c.StartMetadata(t, instance)
	m.SetRole("nodes", c.AddUser(t, "session"))
	client := imds.New(imds.Options{Endpoint: m.URL})
	document, err := client.GetInstanceIdentityDocument(t.Context(), nil)
	if err != nil || document.InstanceID != instance.ID || document.AvailabilityZone != "sea-west-1b" || document.Region != "sea-west-1" || document.InstanceType != "m5.large" || document.AccountID != "111122223333" {
		t.Fatalf("got %+v, error %v", document, err)
	}
	for path, want := range map[string]string{
		"instance-id": instance.ID, "placement/availability-zone": "sea-west-1b", "placement/availability-zone-id": "use1-az2", "mac": instance.MAC,
		"network/interfaces/macs": instance.MAC + "/", "block-device-mapping/": "ami\nroot", "local-ipv4": "10.0.0.7", "local-ipv4/": "10.0.0.7", "iam/security-credentials/": "nodes",
	} {
		got, err := client.GetMetadata(t.Context(), &imds.GetMetadataInput{Path: path})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		text, _ := io.ReadAll(got.Content)
		assert.Equalf(t, want, string(text), "%s is %q", path, text)
	}
	_, err = client.GetMetadata(t.Context(), &imds.GetMetadataInput{Path: "outpost-arn"})
	assert.ErrorContains(t, err, "404")
	if response, err := http.Get(m.URL + "/latest/meta-data/instance-id"); err != nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token, got %+v, error %v", response, err)
	}
	for _, state := range []metadata.State{metadata.Down, metadata.Disabled, metadata.Hung} {
		m.SetState(state)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := imds.New(imds.Options{Endpoint: m.URL}).GetMetadata(ctx, &imds.GetMetadataInput{Path: "instance-id"})
		if err == nil || state == metadata.Hung && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got the error %v while it is %s", err, state)
		}
		cancel()
	}
}

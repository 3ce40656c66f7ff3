// Package removal deletes the AWS resources of a cluster's storage: access points, mount targets, file systems, volumes, snapshots and
// security groups with the cluster's tag. It never deletes a resource without that tag, or with the tag of another cluster. It deletes a
// resource that was not created for the cluster only if the caller trusts its tags.
//
// An installer calls Find and Delete before it deletes the VPC. AWS deletes no VPC in which mount targets have network interfaces:
//
//	clients, err := client.New(ctx, region)
//	inventory, err := removal.Find(ctx, clients, "prod-x7k2p")
//	err = removal.Delete(ctx, clients, inventory, nil)
//
// Find and Delete can be interrupted and called again. Delete deletes only resources that Find has found.
package removal

// Package removal deletes what a cluster's storage has left in AWS: access points, mount targets, file systems, volumes,
// snapshots and security groups that have the cluster's tag. It never deletes what does not have it, or what also has the tag of
// another cluster.
//
// An installer calls it before it deletes the VPC, which cannot be deleted while mount targets have network interfaces in it:
//
//	clients, err := client.New(ctx, region)
//	inventory, err := removal.Find(ctx, clients, "prod-x7k2p")
//	err = removal.Delete(ctx, clients, inventory, nil)
//
// All of it can be interrupted and called again. Delete deletes what Find has found, and nothing else.
package removal

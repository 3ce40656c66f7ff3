package matrix

// Rows are the drivers.
var Rows = []Row{
	{"EFS, version 2.1.11 of OpenShift 4.21", efsCells("efs")},
	{"EFS, version 3.4.1", efsCells("efs-3.4.1")},
	{"Manila, version 1.36.0", manilaCells()},
}

// efsCells returns the cells of a version of the EFS driver.
func efsCells(name string) map[Capability]Cell {
	test := func(capability string) Cell { return Cell{Test: "TestMatrix/" + name + "/" + capability} }
	return map[Capability]Cell{
		Provision:       test("provision"),
		Attach:          {Not: "a file system is mounted over the network; nothing is attached to a node"},
		Publish:         test("publish"),
		Expand:          {Not: "a file system has no size, and neither have its access points"},
		Snapshot:        {Not: "EFS has backups of whole file systems, which AWS Backup makes, and no snapshots"},
		Delete:          test("delete"),
		Tags:            test("tags"),
		STS:             test("STS"),
		PrivateEndpoint: test("private_endpoint"),
	}
}

func manilaCells() map[Capability]Cell {
	test := func(capability string) Cell { return Cell{Test: "TestMatrix/manila/" + capability} }
	return map[Capability]Cell{
		Provision:       test("provision"),
		Attach:          {Not: "a share is mounted over the network; nothing is attached to a node"},
		Publish:         test("publish"),
		Expand:          test("expand"),
		Snapshot:        test("snapshot"),
		Delete:          test("delete"),
		Tags:            test("tags"),
		STS:             {Not: "Keystone knows no tokens of service accounts; the tests log in with an application credential, which is the nearest"},
		PrivateEndpoint: test("private_endpoint"),
	}
}

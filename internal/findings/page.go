package findings

// Page returns the address of a page of the documentation, such as install.md#where-the-driver-is: who reads a message need not
// have a checkout.
func Page(name string) string { return "https://github.com/berth-csi/berth/blob/main/docs/" + name }

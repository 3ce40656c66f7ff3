package findings

// Page returns the URL of a page of the documentation, such as start/install.md#where-the-driver-is: readers of a message may not
// have a checkout.
func Page(name string) string { return "https://github.com/berth-csi/berth/blob/main/docs/" + name }

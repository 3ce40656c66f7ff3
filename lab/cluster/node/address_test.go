package node

import "testing"

func TestAddressesAreTakenInTurn(t *testing.T) {
	a, err := newAddresses("127.83.12")
	if err != nil {
		t.Fatal(err)
	}
	if got := a.node(); got != "127.83.12.1" {
		t.Errorf("the node's address is %s, want 127.83.12.1", got)
	}
	seen := map[string]bool{a.node(): true}
	for range lastPodAddress - firstPodAddress + 1 {
		ip, err := a.take()
		if err != nil || seen[ip] {
			t.Fatalf("got %s, %v, want a free address", ip, err)
		}
		seen[ip] = true
	}
	if ip, err := a.take(); err == nil {
		t.Errorf("got %s, want an error, as all addresses are in use", ip)
	}
	a.release("127.83.12.9")
	a.release("127.83.12.7")
	for _, want := range []string{"127.83.12.7", "127.83.12.9"} {
		if ip, err := a.take(); err != nil || ip != want {
			t.Errorf("got %s, %v, want %s", ip, err, want)
		}
	}
	a.release("127.83.12.7")
	a.release("127.83.12.10")
	if ip, err := a.take(); err != nil || ip != "127.83.12.10" {
		t.Errorf("got %s, %v, want 127.83.12.10, as .7 was in use most recently", ip, err)
	}
}

func TestSubnetMustBeLoopback(t *testing.T) {
	for _, subnet := range []string{"", "10.0.0", "127.0", "127.0.0.0", "127.0.0/24", "127.256.0"} {
		if _, err := newAddresses(subnet); err == nil {
			t.Errorf("subnet %q is accepted", subnet)
		}
	}
}

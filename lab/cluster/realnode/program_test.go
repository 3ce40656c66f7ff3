package realnode_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// mountMemory mounts a file system in memory on the folder "mounted" in a folder, writes a file in it, and waits.
func mountMemory(arguments ...string) error {
	target := filepath.Join(arguments[0], "mounted")
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("test", target, "tmpfs", 0, ""); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(target, "file"), []byte("written by the one that mounted it"), 0o644); err != nil {
		return err
	}
	return serve()
}

// get prints the body of a response.
func get(urls ...string) error {
	for _, url := range urls {
		response, err := http.Get(url)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if _, err := io.Copy(os.Stdout, response.Body); err != nil {
			return err
		}
	}
	return nil
}

// whoAmI prints the user that the API server takes this pod for.
func whoAmI() error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	review, err := api.AuthenticationV1().SelfSubjectReviews().Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	fmt.Println(config.Host, review.Status.UserInfo.Username)
	return nil
}

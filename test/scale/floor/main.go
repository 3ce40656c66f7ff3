// Command floor watches the resources in its arguments, and keeps all objects in memory, like a controller that trims
// nothing. Its cost is the minimum of an operator with the same watches that does not trim.
//
//	floor KUBECONFIG PATH?QUERY...
//
// Each path and query selects a watch, such as /api/v1/nodes?fieldSelector=metadata.name%3Dworker. floor prints a line
// when all caches are filled, and ends with its standard input.
package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(kubeconfig string, targets []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent, config.QPS = "floor/v1", -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, target := range targets {
		address, err := url.Parse(target)
		if err != nil {
			return err
		}
		resource, namespace, err := resourceAt(address.Path)
		if err != nil {
			return err
		}
		informer := dynamicinformer.NewFilteredDynamicInformer(client, resource, namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.FieldSelector, options.LabelSelector = address.Query().Get("fieldSelector"), address.Query().Get("labelSelector")
		}).Informer()
		go informer.RunWithContext(ctx)
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return fmt.Errorf("the cache of %s was not filled", target)
		}
	}
	fmt.Println("filled")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// resourceAt returns the resource of a path such as /apis/apps/v1/namespaces/shop/deployments, and the namespace.
func resourceAt(path string) (resource schema.GroupVersionResource, namespace string, err error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "api":
		parts = append([]string{""}, parts[1:]...)
	case "apis":
		parts = parts[1:]
	}
	if len(parts) == 5 && parts[2] == "namespaces" {
		namespace, parts = parts[3], append(parts[:2:2], parts[4])
	}
	if len(parts) != 3 {
		return resource, "", fmt.Errorf("%s is no path of a list of objects", path)
	}
	return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}, namespace, nil
}

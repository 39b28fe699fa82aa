// Provisioner makes the volumes of a cluster with one node: a folder of the node for each claim. It makes and removes them
// itself; with a helper pod for each, which is the usual way, a claim would wait for that pod's start.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// name is the provisioner in the StorageClass.
const name = "shortener.dev/folder"

// folders is the folder of the node, mounted here under the same path, that holds one folder for each volume.
type folders string

// path of a volume; its name is the API server's, and has no separators.
func (root folders) path(volume string) string {
	return filepath.Join(string(root), filepath.Base(volume))
}

// Provision makes the folder of a new volume. Whoever the pod runs as may write there: fsGroup does not apply to folders of
// the node.
func (root folders) Provision(_ context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	path := root.path(options.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("make the folder of a volume: %w", err)
	}
	// The umask took some of it away.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("open the folder of a volume: %w", err)
	}
	claim := options.PVC.Spec
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   claim.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			VolumeMode:                    claim.VolumeMode,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path},
			},
		},
	}
	return volume, controller.ProvisioningFinished, nil
}

// Delete removes the folder of a volume with all that is in it.
func (root folders) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	return os.RemoveAll(root.path(volume.Name))
}

func main() {
	root := flag.String("root", "", "folder of the node that holds the volumes")
	flag.Parse()
	if *root == "" {
		klog.Fatal("--root is missing: name the folder that holds the volumes")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	config, err := rest.InClusterConfig()
	if err != nil {
		klog.Fatalf("no access to the API server: %v", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		klog.Fatalf("no client of the API server: %v", err)
	}
	// One replica on the only node, so nobody competes for the lead.
	controller.NewProvisionController(ctx, client, name, folders(*root), controller.LeaderElection(false)).Run(ctx)
}

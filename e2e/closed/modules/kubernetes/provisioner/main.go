// Provisioner makes the volumes of one node: a folder for each claim of a pod that the scheduler puts there. It makes and
// removes them itself; with a helper pod for each, which is the usual way, a claim would wait for that pod's start.
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

// selectedNode is the annotation by which the scheduler names the node of a claim.
const selectedNode = "volume.kubernetes.io/selected-node"

// folders is the folder of a node, mounted here under the same path, that holds one folder for each volume.
type folders struct {
	root, node string
}

// path of a volume; its name is the API server's, and has no separators.
func (volumes folders) path(volume string) string {
	return filepath.Join(volumes.root, filepath.Base(volume))
}

// ShouldProvision is true for the claims of this node.
func (volumes folders) ShouldProvision(_ context.Context, claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[selectedNode] == volumes.node
}

// ShouldDelete is true for the volumes of this node.
func (volumes folders) ShouldDelete(_ context.Context, volume *corev1.PersistentVolume) bool {
	return volume.Annotations[selectedNode] == volumes.node
}

// onNode is the rule that pods with a volume of this node run on it.
func (volumes folders) onNode() *corev1.VolumeNodeAffinity {
	name := corev1.NodeSelectorRequirement{
		Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{volumes.node},
	}
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{name}}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}
}

// Provision makes the folder of a new volume. Whoever the pod runs as may write there: fsGroup does not apply to folders of
// the node.
func (volumes folders) Provision(_ context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	path := volumes.path(options.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("make the folder of a volume: %w", err)
	}
	// The umask took some of it away.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("open the folder of a volume: %w", err)
	}
	claim := options.PVC.Spec
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        options.PVName,
			Annotations: map[string]string{selectedNode: volumes.node},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   claim.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			VolumeMode:                    claim.VolumeMode,
			NodeAffinity:                  volumes.onNode(),
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path},
			},
		},
	}
	return volume, controller.ProvisioningFinished, nil
}

// Delete removes the folder of a volume with all that is in it.
func (volumes folders) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	return os.RemoveAll(volumes.path(volume.Name))
}

func main() {
	root := flag.String("root", "", "folder of the node that holds the volumes")
	node := flag.String("node", "", "name of the node")
	flag.Parse()
	if *root == "" || *node == "" {
		klog.Fatal("--root or --node is missing: name the folder that holds the volumes, and the node that it is on")
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
	// Each replica has claims of its own, so nobody competes for the lead.
	volumes := folders{root: *root, node: *node}
	controller.NewProvisionController(ctx, client, name, volumes, controller.LeaderElection(false)).Run(ctx)
}

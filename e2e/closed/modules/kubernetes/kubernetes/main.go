// Kubernetes is the control plane and kube-proxy in one program, under the name by which it is called. The four have most of
// their code in common: apart, they are twice as large, and each has to be linked.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // for the time zones of CronJobs

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // registers the log format JSON
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // registers the metrics of the client
	_ "k8s.io/component-base/metrics/prometheus/version"  // registers the metric with the version
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// command returns the program of that name. A program registers flags and features that all of this process share when its
// command is made, so only one is.
func command(name string) (*cobra.Command, error) {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand(), nil
	case "kube-controller-manager":
		return controllers.NewControllerManagerCommand(), nil
	case "kube-proxy":
		return proxy.NewProxyCommand(), nil
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand(), nil
	}
	return nil, fmt.Errorf("%s is none of this program's names: call it kube-apiserver, kube-controller-manager, kube-proxy or kube-scheduler", name)
}

func main() {
	command, err := command(filepath.Base(os.Args[0]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cli.Run(command))
}

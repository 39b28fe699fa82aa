# From the documents of both charts and what their Chart.yaml says (slurped) to a bundle for the Operator Lifecycle Manager:
# an object from paths to documents. $images has the default images of stacks (`<variable> <image>`), $icon a picture in SVG.

def named($kind): map(select(.kind? == $kind));

# Drops what only Helm reads.
def plain:
  walk(if type == "object" then del(.["app.kubernetes.io/managed-by"], .["helm.sh/chart"]) else . end)
  | del(.metadata.namespace, .metadata.annotations);

# Mirrors of images need complete names.
def complete:
  if test("^[^/]*[.:][^/]*/") then . elif contains("/") then "docker.io/\(.)" else "docker.io/library/\(.)" end;

def related($operator):
  [("operator", "app", "worker") | {name: ., image: (. as $program | $operator | sub("/operator:"; "/\($program):"))}]
  + [$images | split("\n")[] | capture("^(?<name>\\S+)_IMAGE (?<image>\\S+)$")
    | {name: (.name | ascii_downcase | gsub("_"; "-")), image: (.image | complete)}];

# The manager makes these objects from the ClusterServiceVersion.
def is_from_version($role):
  IN(.kind; "Deployment", "ServiceAccount", "ClusterRoleBinding", "Role", "RoleBinding") or (.kind == "ClusterRole" and .metadata.name == $role);

def version($chart; $owned; $examples; $role):
  (named("Deployment")[0] | plain) as $deployment
  | $deployment.spec.template.spec as $pod
  | {
      apiVersion: "operators.coreos.com/v1alpha1",
      kind: "ClusterServiceVersion",
      metadata: {
        name: "\($chart.name).v\($chart.version)",
        labels: {"operatorframework.io/arch.amd64": "supported", "operatorframework.io/arch.arm64": "supported"},
        annotations: {
          "alm-examples": ($examples | tojson),
          capabilities: $chart.annotations["artifacthub.io/operatorCapabilities"],
          categories: "Networking",
          containerImage: $pod.containers[0].image,
          createdAt: ($time | todate),
          description: $chart.description,
          repository: $chart.home
        }
      },
      spec: {
        displayName: "ShortenerStack",
        description: "\($chart.description)\n\nThe [page on installing](\($chart.home)/blob/main/docs/install.md) says which rights it needs, and what users who edit a stack can do.\n",
        version: $chart.version,
        minKubeVersion: ($chart.kubeVersion | capture("^>=(?<lowest>[0-9.]+)-0$").lowest),
        maturity: "alpha",
        provider: {name: "ShortenerStack", url: $chart.home},
        keywords: $chart.keywords,
        links: [{name: "Source and documentation", url: $chart.home}],
        icon: [{base64data: ($icon | @base64), mediatype: "image/svg+xml"}],
        customresourcedefinitions: {owned: $owned},
        installModes: [("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces") | {type: ., supported: true}],
        install: {
          strategy: "deployment",
          spec: {
            deployments: [{name: $deployment.metadata.name, label: $deployment.metadata.labels, spec: $deployment.spec}],
            # Not clusterPermissions: the manager makes a Role in each namespace of the OperatorGroup, or ClusterRoles for all.
            permissions: [{
              serviceAccountName: $pod.serviceAccountName,
              rules: [(named("ClusterRole")[] | select(.metadata.name == $role)), named("Role")[] | .rules[]]
            }]
          }
        },
        relatedImages: related($pod.containers[0].image)
      }
    };

map(select(. != null))
| (map(select(.type? == "application"))[0]) as $chart
| (map(arrays | select(.[0].displayName))[0]) as $owned
| (map(arrays | select(.[0].spec))[0]) as $examples
| map(objects)
| named("ClusterRoleBinding")[0].roleRef.name as $role
| [version($chart; $owned; $examples; $role)]
  + (map(select(.kind and (is_from_version($role) | not))) | map(plain))
| map({("manifests/\(.metadata.name).\(.kind | ascii_downcase).yaml"): .})
| add
| .["metadata/annotations.yaml"] = {annotations: {
    "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
    "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
    "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
    "operators.operatorframework.io.bundle.package.v1": $chart.name,
    "operators.operatorframework.io.bundle.channels.v1": "candidate",
    "operators.operatorframework.io.bundle.channel.default.v1": "candidate"
  }}

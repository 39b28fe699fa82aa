# From the checksums of the archives (lines of sha256sum) to the manifest by which krew installs kubectl's plugin.

{
  apiVersion: "krew.googlecontainertools.github.com/v1alpha2",
  kind: "Plugin",
  metadata: {name: "shortener"},
  spec: {
    version: "v\($version)",
    homepage: "\($source)/blob/v\($version)/docs/kubectl.md",
    shortDescription: "Show and repair link-shortening services",
    description: "Shows stacks of the ShortenerStack operator as trees, previews what an edit changes, works with dead letters, and moves links in and out. It uses your permissions, and needs no running operator.",
    platforms: [inputs | capture("^(?<sha256>[0-9a-f]{64})  (?<archive>\\S+-(?<os>[a-z]+)-(?<arch>[a-z0-9]+)\\.tar\\.gz)$") | {
      selector: {matchLabels: {os, arch}},
      uri: "\($source)/releases/download/v\($version)/\(.archive)",
      sha256,
      files: [("kubectl-shortener", "LICENSE") | {from: ., to: "."}],
      bin: "kubectl-shortener"
    }]
  }
}

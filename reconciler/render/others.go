package render

import (
	"path"
	"slices"

	"github.com/writ-os/writ/reconciler/secret"
)

// othersNames are files of other tools that lie in repositories of manifests, and
// othersPatterns those of values for charts.
var (
	othersNames = []string{
		"renovate.json", "package.json", "package-lock.json", "tsconfig.json", "composer.json", "devbox.json", "cspell.json",
		"Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml", "taskfile.yml", "taskfile.yaml",
		"docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml", "mkdocs.yml", "mkdocs.yaml",
		"codecov.yml", "codecov.yaml", "lefthook.yml", "lefthook.yaml", "ct.yaml", "artifacthub-repo.yml",
	}
	othersPatterns = []string{"values.y*ml", "values-*.y*ml", "values.*.y*ml", "values_*.y*ml", "*-values.y*ml", "*.values.y*ml"}
)

// others says whether a file has the name of one that is for another tool. What is
// in it and says neither apiVersion nor kind is no manifest that somebody has
// spoiled.
func others(file string) bool {
	name := path.Base(secret.PlainName(file))
	return slices.Contains(othersNames, name) || slices.ContainsFunc(othersPatterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}

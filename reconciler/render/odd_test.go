package render

import "testing"

// TestKustomizeOddFolders: a folder may have any name that Git can keep.
func TestKustomizeOddFolders(t *testing.T) {
	for _, dir := range []string{"my app", "a+b", "metrics-server (1)", "x@1.2", "ünder", "a&b=c", "per%20cent", "que?ry", "ha#sh", "st*r", "co:lon", "quo'te", `dou"ble`, "{a}", "a,b", "~x", "a=b"} {
		t.Run(dir, func(t *testing.T) {
			tree := memTree{
				dir + "/kustomization.yaml":    "resources: [../base dir+, cm.yaml, \"sub+ dir/more.yaml\"]\nconfigMapGenerator:\n- {name: gen, files: [\"sub+ dir/x.txt\"]}\n",
				dir + "/cm.yaml":               "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n",
				dir + "/sub+ dir/more.yaml":    "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n",
				dir + "/sub+ dir/x.txt":        "hello",
				"base dir+/kustomization.yaml": "resources: [c.yaml]\n",
				"base dir+/c.yaml":             "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n",
			}
			all := manifests(t, tree)
			for name, file := range map[string]string{"a": dir + "/cm.yaml", "b": dir + "/sub+ dir/more.yaml", "c": "base dir+/c.yaml"} {
				if m := all["ConfigMap/default/"+name]; m == nil || m.File != file {
					t.Errorf("%s is not of %s: %v", name, file, m)
				}
			}
		})
	}
}

package admission
import ("testing"; appsv1 "k8s.io/api/apps/v1"; "k8s.io/apimachinery/pkg/types"; "github.com/writ-os/writ/controlplane/client"; "fmt"; "time")
func TestCost(t *testing.T) {
	c := open(t, nil)
	c.commit("web", web(3))
	o, _ := c.Get(admin, deployments, shop("web"))
	old := o.(*appsv1.Deployment)
	n := old.DeepCopy(); n.Annotations = map[string]string{"a":"b"}
	d := newDiffer()
	d.touched(deployments, old, n)
	b := time.Now()
	for range 1000 { d.touched(deployments, old, n) }
	fmt.Println("touched", time.Since(b)/1000)
	_ = types.MergePatchType; _ = client.WriteOptions{}
}

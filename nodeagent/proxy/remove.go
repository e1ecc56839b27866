package proxy

import (
	"fmt"

	"github.com/google/nftables"
)

// Remove takes the rules of all Services away. What is not there is fine.
func Remove() error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}
	c.AddTable(t) // so that there is one to delete
	c.DelTable(t)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("remove nftables table %s: %w", tableName, err)
	}
	return nil
}

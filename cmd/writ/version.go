package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// version and commit are set by the linker (see Makefile).
var (
	version = "v0.1.0-dev"
	commit  = "unknown"
)

// kubernetesVersion is the API level that the server speaks.
const kubernetesVersion = "v1.36.4"

func versionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{
					"version": version, "commit": commit, "kubernetes": kubernetesVersion, "go": runtime.Version(),
				})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "writ %s (%s), Kubernetes API %s, %s\n", version, commit, kubernetesVersion, runtime.Version())
			return nil
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

// outputFlag adds -o, which every command has; more are formats beside text,
// json and yaml. What a command writes as JSON is written as YAML where that is
// asked for, so that no command need know.
func outputFlag(cmd *cobra.Command, output *string, more ...string) {
	formats := append([]string{"text", "json", "yaml"}, more...)
	last := len(formats) - 1
	words := strings.Join(formats[:last], ", ") + " or " + formats[last]
	cmd.Flags().StringVarP(output, "output", "o", "text", "output `format`: "+words)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) //nolint:errcheck // the flag exists
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains(formats, *output) {
			return usageError{fmt.Errorf("--output %q: must be %s", *output, words)}
		}
		if *output == "yaml" {
			*output = "json"
			cmd.SetOut(&yamlWriter{to: cmd.OutOrStdout()})
		}
		return nil
	}
}

"""A manifest of Kubeflow's TFJob (kubeflow.org/v1) to an app package: docs/tfjob.md has each field.

package = convert(read_manifest(Path("tfjob.yaml")))
write(package, Path("my-app"))
"""

from tfapp.tfjob.convert import Imported, convert, safe_name
from tfapp.tfjob.manifest import Manifest, read_manifest
from tfapp.tfjob.write import write

__all__ = ["Imported", "Manifest", "convert", "read_manifest", "safe_name", "write"]

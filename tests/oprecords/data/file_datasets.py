"""Datasets of files in further formats."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources/data, tests/conformance": """
        CSVDataset CSVDatasetV2 DatasetToTFRecord ExperimentalDatasetToTFRecord
        ExperimentalCSVDataset ExperimentalLMDBDataset
        ExperimentalMatchingFilesDataset ExperimentalSqlDataset LMDBDataset LoadDataset
        MatchingFilesDataset SaveDataset SaveDatasetV2 SnapshotChunkDataset SnapshotDataset
        SnapshotDatasetReader SnapshotDatasetV2 SnapshotNestedDatasetReader SqlDataset
        TFRecordDatasetV2
    """,
}

"""The examples of the documentation, run as their READMEs say."""

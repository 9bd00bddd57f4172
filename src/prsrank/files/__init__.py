"""Files: outputs that appear whole or not at all, JSON, and errors about files in one line."""

from prsrank.files.drafts import atomic_output as atomic_output
from prsrank.files.drafts import check_writable as check_writable
from prsrank.files.json_files import FileName as FileName
from prsrank.files.json_files import existing_file as existing_file
from prsrank.files.json_files import plain_json as plain_json
from prsrank.files.json_files import read_json as read_json
from prsrank.files.json_files import read_toml as read_toml
from prsrank.files.json_files import write_json as write_json

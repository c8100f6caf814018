python3 -m venv env && env/bin/python -c 'import sys; print(sys.prefix == sys.base_prefix, sys.prefix)' && ls env/bin | wc -l
cat > wheel.py <<'PROGRAM'
import zipfile
info = "thing-1.0.dist-info/"
with zipfile.ZipFile("thing-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("thing/__init__.py", "def main():\n    print('thing')\n")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "entry_points.txt", "[console_scripts]\nthing = thing:main\n")
    wheel.writestr(info + "RECORD", "")
PROGRAM
python3 wheel.py && env/bin/pip install -q --no-index ./thing-1.0-py3-none-any.whl && env/bin/thing
. env/bin/activate && thing && pip list --format freeze | grep thing && deactivate
python3 -m pip install -q --no-index --target t ./thing-1.0-py3-none-any.whl 2> /dev/null && PYTHONPATH=t python3 -c 'import thing; thing.main()'

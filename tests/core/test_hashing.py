"""Hashes against the numbers that TensorFlow 1.15 gives, modulo 2**62 + 12345."""

from __future__ import annotations

import base64

import pytest

from flowengine.core.checksums.hashing import fingerprint64, murmur64, siphash24

_BUCKETS = 2**62 + 12345

#: (string in base 64, to_hash_bucket_fast, to_hash_bucket_strong with key [123, 2**40 + 5], to_hash_bucket)
_RECORDED = [
    ("", 1936946117179596765, 3619113152683142229, 105434511174483401),
    ("RA==", 3920590405066574548, 575317236604933829, 2980434903225507015),
    ("PP3m", 1812092280249033735, 1343528523021877391, 120090445238352952),
    ("8cJrMA==", 183469990258929615, 1129419368444389483, 2699860151951185095),
    ("Cw0Ew27YDg==", 3732168868338131788, 4221026451842775170, 4264059889842237019),
    ("ceD9d7B2cOs=", 2581587185996579472, 687486827776133493, 4339883525360224450),
    ("JCoI5wePf4k4XrCUI1VR", 4189036184275930747, 3079699175184853927, 1317698618361440471),
    ("glaLluik/vI6DJ/Fr9dghA==", 1777434719159326963, 2342094530814834842, 3657859029749069861),
    ("N4Fr3QpzCctKElLk2nDmcg8=", 4171374238280699007, 4249091392847611840, 1644643353559153628),
    (
        "Vrb71z5qxGiRNww8BpdFJr+f37alAD/i5rOczK38OQ==",
        3534972737538716325,
        1899279365130207234,
        3330078928365633919,
    ),
    (
        "wcNoAY5l7NGcV+ZluAHH2s+sIvx+lArQT8uKWyUFsoc=",
        2275372850018812469,
        4345233761385406016,
        3158598957461415094,
    ),
    (
        "0ptN7IT4Vu8XijLYI7Ui4gpUUi/NjZtqanmqiSMmvO8Z",
        2603197454732979323,
        4140698820478438553,
        397673517672400047,
    ),
    (
        "KzYxxkbjy13z5RJj5vrHlLJYi1wOHyF15KPiqzTGG++O0e6pMVTN2vRMo0qzRmNzbuhPNDTZGuhNv6SPywfG",
        1535558308893655371,
        826619568788214456,
        644719920417227438,
    ),
    (
        "+eSam8aglFkz+lzkTuo2P6Oh/a6j7KX4yW9Ve2Z9GqQfqNYPsLi50WuTcqDLxFkEx7NxdyGjxGiWMd4Csy/QTg==",
        4241600903884647685,
        4312553800264303106,
        4456550489474433684,
    ),
    (
        "OVuuScDfpo1qY1FUUks94kLcRKqiRgq3WXN4/voRLUTwSWu4Ro+yIcTzD+xke2kCmxWIYCQ2OMypNeT3j0ncvrI=",
        4126317664811100657,
        1139822687362623388,
        4418567805381553700,
    ),
    (
        "XPiWI2I/XgKkQ0saZFZyTXJ8f5LYd0zBQFnFxE87QWJV93bwIaUe/kDkScvIOQ9UY3+Iwo4VEvbkKd1D3mwJAIkLeU"
        "1o8YhRYo2+xwjAJN6XAJk8ZPI/t3FUBMXAF1FOgfXJRTK45H2PX1Xl42PKI2LbX+AaJhhOSd1hyDKk3w==",
        1326449119992756840,
        1626360702348109099,
        2618387933985529686,
    ),
    (
        "xJFh1xYQp4DB/pYspkgbKh1d+63YFeM++YJnwVXccrvGMvDNp3UcJ4cdbd1tZBIhnSIBDUrmUBkXenJkD+d82XVKux"
        "223hG3BHD1zm7wj1a8lTYDzck4QlOOuBeRY8Qm6xhOGU9H6FhMWEegeD+5gTgYWj0behiZSANZ6hDcBj4=",
        4153754270547931187,
        2066957921279524373,
        1421531089412683663,
    ),
    (
        "XCgUF6z05or2M39yn9P1C5f24GfJS1pZIaJv/wIyrw+if0JmsmurUdTiVsm5v5uHY7U7tVRLjVmGfXLuaYCK+6FXvJ"
        "4CBsPRkbVKQTsrLTVccrgccL3S1IHgxwaw68Uktzaz5JA72JP23etJYL9gzEejEFY2J2sH+KDw11ipfBCW",
        2392864485529781802,
        3010152722600102629,
        2715999678557099620,
    ),
    (
        "BEW6RPlPNgdGxKZzHQEUweaUMHrxnu7zDNCVeuw2YmZfXxIR0OGVz5SjQwp19mVCqlSKxc+jJP5t6bL9x19MoSoO4s"
        "AclcJMvEdqmeHkRMyoDq+ldbGPr5ZPUyHvX37MUAt05C94KeQYOzX+66SZHwMfae0QarWVSPfAXDL8wK9bPYc5gDmC"
        "9SNgxxsb4LePJ5qcaaa6i8etqfOz7MBeYXiOlO1KgKkvSkplisz2YuB/7on0ooUz56GhuQ0hqeCh8gGn2WbHaLsesY"
        "iuUQWDy6IGQMgUm0XHx+JNptmAzyCJ1poAJuVaMVuhXFCAG7+cjy3ciC5Do+REcTfY2huR8kUUmsUN/+kbw6RQ5aTY"
        "6pZAAVz9mVYfIhfHcejJlSg2p77GERBqWU1OGQ6Q",
        3419956668195786444,
        4165588000409211243,
        3582547373793447953,
    ),
]


@pytest.mark.parametrize(("encoded", "fast", "strong", "old"), _RECORDED)
def test_recorded(encoded: str, fast: int, strong: int, old: int) -> None:
    data = base64.b64decode(encoded)
    assert fingerprint64(data) % _BUCKETS == fast
    assert siphash24((123, 2**40 + 5), data) % _BUCKETS == strong
    assert murmur64(data) % _BUCKETS == old

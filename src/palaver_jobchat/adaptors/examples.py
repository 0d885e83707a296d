"""A complete example job per major version of an adaptor, for adaptors whose functions changed between versions.

tests/conformance runs them with the real adaptors.
"""

from typing import Final

from palaver_jobchat.adaptors.entries import AdaptorDocs

_FETCH_AND_FILTER: Final = """\
get('/patients', { query: { since: $.cursor } });

fn(state => {
  const patients = state.data.filter(patient => patient.active);
  return { ...state, patients };
});
"""
_BODY: Final = "{ patientId: $.data.id, name: `${$.data.first} ${$.data.last}` }"
_HEADERS: Final = "headers: { 'x-source': 'openfn' }"

HTTP_6: Final = f"""\
{_FETCH_AND_FILTER}
each(
  $.patients,
  post('/visits', {{
    body: {_BODY},
    {_HEADERS},
  }})
);"""
HTTP_7: Final = f"""\
{_FETCH_AND_FILTER}
each(
  $.patients,
  post(
    '/visits',
    {_BODY},
    {{ {_HEADERS} }}
  )
);"""

_FIRST_MAJOR_WITH_DATA_ARGUMENT = 7


def example_job(docs: AdaptorDocs) -> str | None:
    """Return an example for the major version of the adaptor, if there is one."""
    major = (docs.version or "").partition(".")[0]
    if docs.adaptor.short != "http" or not major.isdecimal():
        return None
    return HTTP_7 if int(major) >= _FIRST_MAJOR_WITH_DATA_ARGUMENT else HTTP_6

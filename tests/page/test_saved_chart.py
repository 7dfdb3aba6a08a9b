# SPDX-License-Identifier: Apache-2.0
"""A chart that was saved as a page, opened in a real browser."""

from __future__ import annotations

from epsilens.show import cost_chart

HOSTILE = "</script><script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"


def test_a_saved_chart_draws_itself_and_runs_no_name(browser, build, tmp_path):
    file = tmp_path / "chart.html"
    cost_chart(build.make_whatif(groups=("all", HOSTILE))).save(file)
    context = browser.new_context()
    page = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    # A busy machine is no failure.
    page.set_default_timeout(120_000)
    page.goto(file.as_uri())
    page.wait_for_selector("#chart svg")
    page.locator('#chart svg [aria-roledescription="point"]').first.hover()
    page.wait_for_selector("#vg-tooltip-element")
    assert page.title() == "epsilens"
    assert "</script>" in page.text_content("#chart svg")
    assert requests == [file.as_uri()]
    assert complaints == []
    context.close()

// @vitest-environment happy-dom
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';
import { FailureText } from './status';

const TRACE = '/traces/0af7651916cd43dd8448eb211c80319c';
const render = (text: string): string => renderToStaticMarkup(<FailureText text={text} />);

it('turns the address of a trace at the end of a failure into a link on this page', () => {
  const html = render(`It failed. Trace: http://127.0.0.1:8642${TRACE}`);
  expect(html).toMatch(/^It failed\. <a [^>]*href="\/traces\/0af7651916cd43dd8448eb211c80319c"[^>]*>View trace<\/a>$/);
});

it.each([
  'It failed.',
  `It failed. Trace: javascript:alert(1)${TRACE}`,
  `It failed. Trace: http://127.0.0.1${TRACE} <b>`,
  'It failed. Trace: http://127.0.0.1/traces/../settings',
])('shows any other text as it is: %s', (text) => {
  expect(render(text)).toBe(text.replace('<b>', '&lt;b&gt;'));
});

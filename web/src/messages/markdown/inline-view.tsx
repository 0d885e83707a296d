/** What stands inside a line, as elements. Written tag for tag: no text ever becomes markup. */
import { ImageIcon } from 'lucide-react';
import type { Links, MarkedToken, Token } from 'marked';
import { Fragment, type ReactNode } from 'react';
import { unreachable } from '@/lib/unreachable';
import { OutLink } from '../link';
import { LongText } from '../long-text';
import { address, entities, exact, inlineImage, prose } from '@/lib/safe-text';
import { inlineTokens } from './lexer';
import { mended } from './tail';

/** Past these a line is shown as it is: the time to pair its marks grows with their square. */
const MAX_INLINE = 20_000;
const MAX_MARKS = 1000;
const ONE_IMAGE = /^!\[([^\]\n]{0,500})\]\((data:image\/[a-z]+;base64,[\w+/=]+)\)\s*$/;

/** `open`: its end is still being written. */
export function InlineView({ text, links, open = false }: { text: string; links: Links; open?: boolean }): ReactNode {
  if (text.length > MAX_MARKS && (text.length > MAX_INLINE || marks(text) > MAX_MARKS)) {
    const image = ONE_IMAGE.exec(text);
    return image?.[2] && inlineImage(image[2]) ? <InlineImage url={image[2]} words={image[1] ?? ''} /> : <LongText text={text} />;
  }
  return <Tokens tokens={inlineTokens(open ? mended(text) : text, links)} />;
}

const marks = (text: string): number => text.match(/[*_~[<`@]/g)?.length ?? 0;

function Tokens({ tokens }: { tokens: readonly Token[] }): ReactNode {
  // oxlint-disable-next-line react/no-array-index-key -- they are nothing but their order
  return tokens.map((token, index) => <Fragment key={index}>{drawn(token as MarkedToken)}</Fragment>);
}

function drawn(token: MarkedToken): ReactNode {
  switch (token.type) {
    case 'text':
      return token.tokens ? <Tokens tokens={token.tokens} /> : prose(entities(token.text));
    case 'escape':
      return prose(token.text);
    case 'strong':
      return <strong className="font-semibold"><Tokens tokens={token.tokens} /></strong>;
    case 'em':
      return <em><Tokens tokens={token.tokens} /></em>;
    case 'del':
      return <del><Tokens tokens={token.tokens} /></del>;
    case 'codespan':
      return <code dir="ltr" className="rounded-sm bg-sunken px-1 py-0.5 font-mono text-[0.9em] wrap-anywhere">{exact(token.text)}</code>;
    case 'br':
      return <br />;
    case 'link':
      return <Linked href={token.autolink ? token.href : entities(token.href)} words={token.text}><Tokens tokens={token.tokens} /></Linked>;
    case 'image':
      return <InlineImage url={entities(token.href)} words={token.text} />;
    case 'html':
      return /^<br\s*\/?>$/i.test(token.text) ? <br /> : prose(token.text);
    case 'checkbox':
      return null;
    case 'blockquote': case 'code': case 'def': case 'heading': case 'hr': case 'list': case 'list_item': case 'paragraph': case 'space': case 'table':
      return prose(token.raw); // Not inside a line; shown as written if it ever were.
    default:
      return unreachable(token);
  }
}

function Linked({ href, words, children }: { href: string; words: string; children: ReactNode }): ReactNode {
  const to = address(href);
  return to ? <OutLink to={to} words={words}>{children}</OutLink> : children;
}

/** An image in the text is shown; one elsewhere is a link, for loading it would tell someone that it was read. */
function InlineImage({ url, words }: { url: string; words: string }): ReactNode {
  const name = prose(entities(words));
  if (inlineImage(url)) return <img src={url} alt={name} className="my-1 inline-block max-h-96 max-w-full rounded-lg" />;
  const to = address(url);
  const label = <><ImageIcon aria-label="Image" className="mr-1 inline size-4 align-text-bottom" />{name || 'image'}</>;
  return to ? <OutLink to={to} words={name}>{label}</OutLink> : <span className="text-muted">{label}</span>;
}

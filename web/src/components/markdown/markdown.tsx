/**
 * Markdown renderer that also handles streaming text: finished blocks keep their elements, only the last ones are
 * parsed again.
 */
import { Square, SquareCheck, ImageIcon } from 'lucide-react';
import type { Links, MarkedToken, Token, Tokens } from 'marked';
import { memo, useMemo, useState, type ReactNode, Fragment, useEffect, useRef } from 'react';
import { LongText, ExternalLink } from '@/components/text';
import { cn } from '@/lib/cn';
import { safeLink, decodeEntities, safeExact, isInlineImage, safeProse } from '@/lib/safe-text';
import { unreachable } from '@/lib/unreachable';
import { CodeBlock } from './code-block';
import {
  createBlockReader,
  withoutPartialLine,
  blockTokens,
  isFenceClosed,
  provisionalTable,
  inlineTokens,
  withClosedMarks,
} from './parser';

/** Longer text is shown as plain text. */
const MAX_MARKDOWN_LENGTH = 200_000;

export const Markdown = memo(function Markdown({
  text,
  streaming = false,
}: {
  text: string;
  streaming?: boolean;
}): ReactNode {
  const throttledText = useThrottledText(text, streaming);
  if (throttledText.length > MAX_MARKDOWN_LENGTH) {
    return (
      <div dir="auto" className="wrap-anywhere whitespace-pre-wrap">
        <LongText text={throttledText} />
      </div>
    );
  }
  return <MarkdownBlocks text={streaming ? withoutPartialLine(throttledText) : throttledText} open={streaming} />;
});

const MarkdownBlocks = memo(function MarkdownBlocks({ text, open }: { text: string; open: boolean }): ReactNode {
  const [readBlocks] = useState(createBlockReader);
  const { blocks, links } = useMemo(() => readBlocks(text, open), [readBlocks, text, open]);
  return (
    <div className="space-y-3">
      <BlocksView blocks={blocks} links={links} open={open} />
    </div>
  );
});

/* oxlint-disable react/no-array-index-key -- blocks, items, rows and cells are only ever added at the end */

interface Props {
  block: Token;
  links: Links;
  /** Whether the end is still streaming. */
  open: boolean;
}

/** One block. Memoized by the token object. */
export const BlockView = memo(function BlockView({ block, links, open }: Props): ReactNode {
  const token = block as MarkedToken;
  switch (token.type) {
    case 'paragraph':
      return <ParagraphView text={token.text} links={links} open={open} />;
    case 'text':
      return (
        <span dir="auto">
          <InlineView text={token.text} links={links} open={open} />
        </span>
      );
    case 'heading':
      return <HeadingView heading={token} links={links} open={open} />;
    case 'code':
      return <CodeBlock text={token.text} language={token.lang ?? ''} closed={!open || isFenceClosed(token.raw)} />;
    case 'blockquote':
      return (
        <blockquote className="border-l-2 border-strong-line pl-3 text-muted">
          <BlocksView blocks={token.tokens} links={links} open={open} />
        </blockquote>
      );
    case 'list':
      return <ListView list={token} links={links} open={open} />;
    case 'table':
      return <TableView table={token} links={links} open={open} />;
    case 'hr':
      return <hr className="my-1" />;
    case 'html':
      return (
        <p dir="auto" className="wrap-anywhere whitespace-pre-wrap">
          <LongText text={token.text} />
        </p>
      );
    case 'space':
    case 'def':
    case 'checkbox':
      return null;
    case 'br':
    case 'codespan':
    case 'del':
    case 'em':
    case 'escape':
    case 'image':
    case 'link':
    case 'list_item':
    case 'strong':
      return (
        <p dir="auto">
          <LongText text={token.raw} />
        </p>
      ); // marked emits these inside blocks only; if not, show the source.
    default:
      return unreachable(token);
  }
});

export function BlocksView({
  blocks,
  links,
  open,
}: {
  blocks: readonly Token[];
  links: Links;
  open: boolean;
}): ReactNode {
  return blocks.map((block, index) => (
    <BlockView key={index} block={block} links={links} open={open && index === blocks.length - 1} />
  ));
}

function ParagraphView({ text, links, open }: { text: string; links: Links; open: boolean }): ReactNode {
  const provisional = open ? provisionalTable(text) : undefined;
  if (provisional) return <BlocksView blocks={blockTokens(provisional)} links={links} open={false} />;
  return (
    <p dir="auto" className="wrap-anywhere">
      <InlineView text={text} links={links} open={open} />
    </p>
  );
}

function HeadingView({ heading, links, open }: { heading: Tokens.Heading; links: Links; open: boolean }): ReactNode {
  const className = heading.depth === 1 ? 'mt-2 text-lg' : heading.depth === 2 ? 'mt-2 text-base' : 'mt-1 text-sm';
  return (
    // Headings of messages are below those of the page.
    <div
      role="heading"
      aria-level={Math.min(heading.depth + 2, 6)}
      dir="auto"
      className={cn('font-semibold wrap-anywhere', className)}
    >
      <InlineView text={heading.text} links={links} open={open} />
    </div>
  );
}

function ListView({ list, links, open }: { list: Tokens.List; links: Links; open: boolean }): ReactNode {
  const Tag = list.ordered ? 'ol' : 'ul';
  const isTaskList = list.items.every((item) => item.task);
  return (
    <Tag
      dir="auto"
      {...(list.ordered && list.start !== 1 ? { start: Number(list.start) } : {})}
      className={cn(
        'ps-6',
        list.ordered ? 'list-decimal' : 'list-disc',
        isTaskList && '!ps-5',
        list.loose ? 'space-y-2' : 'space-y-1',
      )}
    >
      {list.items.map((item, index) => (
        <ItemView key={index} item={item} links={links} open={open && index === list.items.length - 1} />
      ))}
    </Tag>
  );
}

const TASK_MARKER = /^\[[ xX]\]\s+/;

function ItemView({ item, links, open }: { item: Tokens.ListItem; links: Links; open: boolean }): ReactNode {
  if (!item.task)
    return (
      <li className="space-y-1 marker:text-muted">
        <BlocksView blocks={item.tokens} links={links} open={open} />
      </li>
    );
  // Loose lists keep the task marker in their text; it is drawn here.
  const blocks = item.tokens.map((token) =>
    'text' in token && typeof token.text === 'string' ? { ...token, text: token.text.replace(TASK_MARKER, '') } : token,
  );
  return (
    <li className="-ms-5 flex gap-2">
      <span className="mt-0.5 shrink-0 text-muted [&>svg]:size-4">
        {item.checked ? <SquareCheck role="img" aria-label="Done" /> : <Square role="img" aria-label="To do" />}
      </span>
      <div className="min-w-0 space-y-1">
        <BlocksView blocks={blocks} links={links} open={open} />
      </div>
    </li>
  );
}

function TableView({ table, links, open }: { table: Tokens.Table; links: Links; open: boolean }): ReactNode {
  return (
    <div className="max-w-full overflow-x-auto rounded-lg border">
      <table className="w-max min-w-full border-collapse text-start">
        <thead className="bg-sunken">
          <tr>
            {table.header.map((cell, index) => (
              <CellView key={index} cell={cell} links={links} open={false} />
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, rowIndex) => (
            <tr key={rowIndex} className="border-t">
              {row.map((cell, index) => (
                <CellView key={index} cell={cell} links={links} open={open && rowIndex === table.rows.length - 1} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const ALIGN_CLASSES = { left: 'text-left', center: 'text-center', right: 'text-right' };

function CellView({ cell, links, open }: { cell: Tokens.TableCell; links: Links; open: boolean }): ReactNode {
  const Tag = cell.header ? 'th' : 'td';
  return (
    <Tag
      dir="auto"
      className={cn(
        'max-w-80 min-w-16 px-3 py-1.5 align-top wrap-break-word',
        cell.align ? ALIGN_CLASSES[cell.align] : 'text-start',
        cell.header && 'font-medium',
      )}
    >
      <InlineView text={cell.text} links={links} open={open} />
    </Tag>
  );
}

/** Longer lines, or lines with more marks, are shown as written: pairing marks takes quadratic time. */
const MAX_INLINE_LENGTH = 20_000;
const MAX_MARKS = 1000;
const SINGLE_IMAGE = /^!\[([^\]\n]{0,500})\]\((data:image\/[a-z]+;base64,[\w+/=]+)\)\s*$/;

/** `open`: the end is still streaming. */
export function InlineView({ text, links, open = false }: { text: string; links: Links; open?: boolean }): ReactNode {
  if (text.length > MAX_MARKS && (text.length > MAX_INLINE_LENGTH || countMarks(text) > MAX_MARKS)) {
    const image = SINGLE_IMAGE.exec(text);
    return image?.[2] && isInlineImage(image[2]) ? (
      <InlineImage url={image[2]} alt={image[1] ?? ''} />
    ) : (
      <LongText text={text} />
    );
  }
  return <InlineTokens tokens={inlineTokens(open ? withClosedMarks(text) : text, links)} />;
}

const countMarks = (text: string): number => text.match(/[*_~[<`@]/g)?.length ?? 0;

function InlineTokens({ tokens }: { tokens: readonly Token[] }): ReactNode {
  // oxlint-disable-next-line react/no-array-index-key -- tokens have no identity but their order
  return tokens.map((token, index) => <Fragment key={index}>{renderToken(token as MarkedToken)}</Fragment>);
}

function renderToken(token: MarkedToken): ReactNode {
  switch (token.type) {
    case 'text':
      return token.tokens ? <InlineTokens tokens={token.tokens} /> : safeProse(decodeEntities(token.text));
    case 'escape':
      return safeProse(token.text);
    case 'strong':
      return (
        <strong className="font-semibold">
          <InlineTokens tokens={token.tokens} />
        </strong>
      );
    case 'em':
      return (
        <em>
          <InlineTokens tokens={token.tokens} />
        </em>
      );
    case 'del':
      return (
        <del>
          <InlineTokens tokens={token.tokens} />
        </del>
      );
    case 'codespan':
      return (
        <code dir="ltr" className="rounded-sm bg-sunken px-1 py-0.5 font-mono text-[0.9em] wrap-anywhere">
          {safeExact(token.text)}
        </code>
      );
    case 'br':
      return <br />;
    case 'link':
      return (
        <InlineLink href={token.autolink ? token.href : decodeEntities(token.href)} linkText={token.text}>
          <InlineTokens tokens={token.tokens} />
        </InlineLink>
      );
    case 'image':
      return <InlineImage url={decodeEntities(token.href)} alt={token.text} />;
    case 'html':
      return /^<br\s*\/?>$/i.test(token.text) ? <br /> : safeProse(token.text);
    case 'checkbox':
      return null;
    case 'blockquote':
    case 'code':
    case 'def':
    case 'heading':
    case 'hr':
    case 'list':
    case 'list_item':
    case 'paragraph':
    case 'space':
    case 'table':
      return safeProse(token.raw); // marked emits these outside of lines only; if not, show the source.
    default:
      return unreachable(token);
  }
}

function InlineLink({ href, linkText, children }: { href: string; linkText: string; children: ReactNode }): ReactNode {
  const to = safeLink(href);
  return to ? (
    <ExternalLink to={to} linkText={linkText}>
      {children}
    </ExternalLink>
  ) : (
    children
  );
}

/** Inline data is displayed; a remote image becomes a link, because loading it would reveal that it was read. */
function InlineImage({ url, alt }: { url: string; alt: string }): ReactNode {
  const name = safeProse(decodeEntities(alt));
  if (isInlineImage(url))
    return <img src={url} alt={name} className="my-1 inline-block max-h-96 max-w-full rounded-lg" />;
  const to = safeLink(url);
  const label = (
    <>
      <ImageIcon aria-label="Image" className="mr-1 inline size-4 align-text-bottom" />
      {name || 'image'}
    </>
  );
  return to ? (
    <ExternalLink to={to} linkText={name}>
      {label}
    </ExternalLink>
  ) : (
    <span className="text-muted">{label}</span>
  );
}

const MIN_PAUSE_MS = 40;

/** Milliseconds between two renders of streaming text; longer for longer texts. */
const renderPause = (text: string): number => MIN_PAUSE_MS + Math.min(400, text.length / 500);

/** Throttle a text that changes with every token. */
export function useThrottledText(text: string, streaming: boolean): string {
  const [displayed, setDisplayed] = useState(text);
  const latest = useRef(text);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    latest.current = text;
    if (!streaming || timer.current !== undefined) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      setDisplayed(latest.current);
    }, renderPause(text));
  }, [text, streaming]);
  useEffect(
    () => () => {
      clearTimeout(timer.current);
      timer.current = undefined;
    },
    [],
  );
  // Finished or replaced text is shown at once.
  return streaming && text.startsWith(displayed) ? displayed : text;
}

/** One block of Markdown, as elements. Drawn again only when the block itself is another. */
/* oxlint-disable react/no-array-index-key -- blocks, items, rows and cells are only ever added at the end */
import { Square, SquareCheck } from 'lucide-react';
import type { Links, MarkedToken, Token, Tokens } from 'marked';
import { memo, type ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { unreachable } from '@/lib/unreachable';
import { LongText } from '../long-text';
import { CodeBlock } from './code-block';
import { InlineView } from './inline-view';
import { blockTokens } from './lexer';
import { closedFence, table as begunTable } from './tail';

interface Props {
  block: Token;
  links: Links;
  /** Its end is still being written. */
  open: boolean;
}

export const BlockView = memo(function BlockView({ block, links, open }: Props): ReactNode {
  const token = block as MarkedToken;
  switch (token.type) {
    case 'paragraph':
      return <ParagraphView text={token.text} links={links} open={open} />;
    case 'text':
      return <span dir="auto"><InlineView text={token.text} links={links} open={open} /></span>;
    case 'heading':
      return <HeadingView heading={token} links={links} open={open} />;
    case 'code':
      return <CodeBlock text={token.text} language={token.lang ?? ''} closed={!open || closedFence(token.raw)} />;
    case 'blockquote':
      return <blockquote className="border-l-2 border-strong-line pl-3 text-muted"><BlocksView blocks={token.tokens} links={links} open={open} /></blockquote>;
    case 'list':
      return <ListView list={token} links={links} open={open} />;
    case 'table':
      return <TableView table={token} links={links} open={open} />;
    case 'hr':
      return <hr className="my-1" />;
    case 'html':
      return <p dir="auto" className="wrap-anywhere whitespace-pre-wrap"><LongText text={token.text} /></p>;
    case 'space': case 'def': case 'checkbox':
      return null;
    case 'br': case 'codespan': case 'del': case 'em': case 'escape': case 'image': case 'link': case 'list_item': case 'strong':
      return <p dir="auto"><LongText text={token.raw} /></p>; // Never a block; shown as written if it ever were.
    default:
      return unreachable(token);
  }
});

export function BlocksView({ blocks, links, open }: { blocks: readonly Token[]; links: Links; open: boolean }): ReactNode {
  return blocks.map((block, index) => <BlockView key={index} block={block} links={links} open={open && index === blocks.length - 1} />);
}

function ParagraphView({ text, links, open }: { text: string; links: Links; open: boolean }): ReactNode {
  const begun = open ? begunTable(text) : undefined;
  if (begun) return <BlocksView blocks={blockTokens(begun)} links={links} open={false} />;
  return <p dir="auto" className="wrap-anywhere"><InlineView text={text} links={links} open={open} /></p>;
}

function HeadingView({ heading, links, open }: { heading: Tokens.Heading; links: Links; open: boolean }): ReactNode {
  const look = heading.depth === 1 ? 'mt-2 text-lg' : heading.depth === 2 ? 'mt-2 text-base' : 'mt-1 text-sm';
  return (
    // The page has headings of its own: these stand below them.
    <div role="heading" aria-level={Math.min(heading.depth + 2, 6)} dir="auto" className={classes('font-semibold wrap-anywhere', look)}>
      <InlineView text={heading.text} links={links} open={open} />
    </div>
  );
}

function ListView({ list, links, open }: { list: Tokens.List; links: Links; open: boolean }): ReactNode {
  const Tag = list.ordered ? 'ol' : 'ul';
  const tasks = list.items.every((item) => item.task);
  return (
    <Tag
      dir="auto"
      {...(list.ordered && list.start !== 1 ? { start: Number(list.start) } : {})}
      className={classes('ps-6', list.ordered ? 'list-decimal' : 'list-disc', tasks && '!ps-5', list.loose ? 'space-y-2' : 'space-y-1')}
    >
      {list.items.map((item, index) => (
        <ItemView key={index} item={item} links={links} open={open && index === list.items.length - 1} />
      ))}
    </Tag>
  );
}

const MARK = /^\[[ xX]\]\s+/;

function ItemView({ item, links, open }: { item: Tokens.ListItem; links: Links; open: boolean }): ReactNode {
  if (!item.task) return <li className="space-y-1 marker:text-muted"><BlocksView blocks={item.tokens} links={links} open={open} /></li>;
  // A loose list keeps its marks in the text; they are drawn here.
  const blocks = item.tokens.map((token) => ('text' in token && typeof token.text === 'string' ? { ...token, text: token.text.replace(MARK, '') } : token));
  return (
    <li className="-ms-5 flex gap-2">
      <span className="mt-0.5 shrink-0 text-muted [&>svg]:size-4">
        {item.checked ? <SquareCheck role="img" aria-label="Done" /> : <Square role="img" aria-label="To do" />}
      </span>
      <div className="min-w-0 space-y-1"><BlocksView blocks={blocks} links={links} open={open} /></div>
    </li>
  );
}

function TableView({ table, links, open }: { table: Tokens.Table; links: Links; open: boolean }): ReactNode {
  return (
    <div className="max-w-full overflow-x-auto rounded-lg border">
      <table className="w-max min-w-full border-collapse text-start">
        <thead className="bg-sunken">
          <tr>{table.header.map((cell, index) => <CellView key={index} cell={cell} links={links} open={false} />)}</tr>
        </thead>
        <tbody>
          {table.rows.map((row, at) => (
            <tr key={at} className="border-t">
              {row.map((cell, index) => <CellView key={index} cell={cell} links={links} open={open && at === table.rows.length - 1} />)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const ALIGNED = { left: 'text-left', center: 'text-center', right: 'text-right' };

function CellView({ cell, links, open }: { cell: Tokens.TableCell; links: Links; open: boolean }): ReactNode {
  const Tag = cell.header ? 'th' : 'td';
  return (
    <Tag dir="auto" className={classes('max-w-80 min-w-16 px-3 py-1.5 align-top wrap-break-word', cell.align ? ALIGNED[cell.align] : 'text-start', cell.header && 'font-medium')}>
      <InlineView text={cell.text} links={links} open={open} />
    </Tag>
  );
}
